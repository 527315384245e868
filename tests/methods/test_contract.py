"""One contract for every row of the table of methods."""

import copy
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.utils.flop_counter import FlopCounterMode

from prunus.backbone.probe import Probe, probe_network
from prunus.backbone.wrn import WideResNet
from prunus.backbone.zoo import Backbone
from prunus.checkpoints.checkpoint import Identity, Position, read_checkpoint, save_checkpoint
from prunus.config import Recipe
from prunus.images import Preprocess
from prunus.learning.learner import Batch, Learner
from prunus.masks.adapter import Adapter, Cost
from prunus.masks.layer_copies import SharedConvolutions
from prunus.masks.layout import convolutions
from prunus.masks.network import MultiDomainNet
from prunus.masks.per_domain import PerDomain
from prunus.methods.costs import network_costs
from prunus.methods.early_exits import Exits
from prunus.methods.method import Method
from prunus.methods.table import METHODS, adapt
from prunus.methods.taps import ChosenResiduals
from prunus.recipes import parse_recipe

pytestmark = pytest.mark.slow  # every method is trained

CLASSES = {"a": ["x", "y"], "b": ["x", "y", "z"], "c": ["u", "v"]}
SIZE = 8
OPTIONS = {"exact, frozen": ("exact", {"weights": "frozen"})}  # rows of the table with other options
every_method = pytest.mark.parametrize("method", [*METHODS, *OPTIONS])


def _choice(method: str) -> tuple[str, dict[str, str]]:
    return OPTIONS.get(method, (method, {}))


def _adapted(backbone: Backbone, method: str) -> MultiDomainNet:
    name, options = _choice(method)
    return adapt(backbone, CLASSES, name, options=METHODS[name].options.model_validate(options))


@cache
def _backbone() -> Backbone:
    """A tiny network with norms that fit our images."""
    with torch.random.fork_rng():
        torch.manual_seed(0)
        network = WideResNet(blocks=1, stem=4, widths=(4, 6, 8))
    with torch.no_grad():
        for step in range(80):
            network(_batch(0, step).images)
    preprocess = Preprocess(size=SIZE, resize=SIZE, mean=(0, 0, 0), std=(1, 1, 1))
    return Backbone("tiny", network, preprocess, probe_network(network, SIZE))


def _recipe(method: str) -> Recipe:
    name, options = _choice(method)
    training = {"lr": 0.1, "switch_lr": 0.001, "epochs": 10, "dual_rate": 0.1}
    content = {
        "preset": "paper",
        "backbone": "wrn14_2",
        "domains": list(CLASSES),
        "budget": 0.6,
        "method": {"name": name, **options},
        "training": training,
    }
    return parse_recipe(content)


def _batch(domain: int, seed: int = 0) -> Batch:
    """Images whose brightness tells their class."""
    generator = torch.Generator().manual_seed(seed)
    labels = torch.arange(8) % 2
    images = torch.randn(8, 3, SIZE, SIZE, generator=generator) * 0.3 + labels[:, None, None, None] * 1.5 - 0.75
    return Batch(domain, images, labels)


class _Mixed(nn.Module):
    """Biases, a depthwise and a grouped convolution, no padding, much padding, and a convolution that runs twice."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Conv2d(3, 6, 3, padding=2, bias=True)
        self.first = nn.Sequential(nn.Conv2d(6, 6, 3, padding=1, groups=6), nn.BatchNorm2d(6))
        self.twice = nn.Conv2d(6, 6, 3, padding=1, groups=2)
        self.second = nn.Sequential(nn.Conv2d(6, 4, 4, stride=2), nn.BatchNorm2d(4))
        self.third = nn.Conv2d(4, 5, 1)
        self.feature_info = [{"module": name} for name in ("first", "second", "third")]

    def forward(self, x: Tensor) -> Tensor:
        x = F.silu(self.first(self.stem(x)))
        x = F.silu(self.second(self.twice(F.silu(self.twice(x)))))
        return F.silu(self.third(x)).mean((2, 3))


@cache
def _mixed_backbone() -> Backbone:
    with torch.random.fork_rng():
        torch.manual_seed(0)
        network = _Mixed()
    preprocess = Preprocess(size=SIZE, resize=SIZE, mean=(0, 0, 0), std=(1, 1, 1))
    return Backbone("mixed", network, preprocess, probe_network(network, SIZE))


every_backbone = pytest.mark.parametrize("make", [_backbone, _mixed_backbone], ids=["tiny", "mixed"])


def _stirred(method: str, seed: int = 1, make: Callable[[], Backbone] = _backbone) -> tuple[Backbone, MultiDomainNet]:
    """A network that is far from its start: everything learned is moved, and every norm has its own statistics."""
    backbone = make()
    net = _adapted(backbone, method)
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for name, parameter in net.named_parameters():
            if parameter.requires_grad:  # a coefficient is added to every weight of a layer
                amount = 0.01 if "coefficients" in name else 0.1
                parameter.add_(torch.randn(parameter.shape, generator=generator) * amount)
        if net.switches:  # about half of them on
            shape = net.switches.scores_DM.shape
            net.switches.scores_DM.copy_(torch.rand(shape, generator=generator) - 0.5 + net.switches.threshold)
        for adapter in net.adapters:
            if isinstance(adapter, ChosenResiduals):
                for scores in adapter.scores:
                    scores.copy_(torch.rand(scores.shape, generator=generator) * 2 * adapter.options.threshold)
            if isinstance(adapter, Exits):  # one domain leaves first, one second, one not
                adapter.seen_D.fill_(1.0)
                adapter.accuracy_DE.copy_(torch.tensor([[0.9, 0.9, 0.9], [0.5, 0.9, 0.9], [0.5, 0.6, 0.9]]))
        for name, statistics in net.named_buffers():
            if "running_var" in name and not name.startswith("network."):
                statistics.mul_(torch.rand(statistics.shape, generator=generator) + 0.5)
    return backbone, net.eval()


def _identity(method: str) -> Identity:
    preprocess = dict.fromkeys(CLASSES, _backbone().preprocess)
    classes = {name: tuple(labels) for name, labels in CLASSES.items()}
    domains = dict.fromkeys(CLASSES, "")
    return Identity(recipe=_recipe(method), backbone="", domains=domains, classes=classes, preprocess=preprocess)


@every_method
def test_a_few_steps_lower_the_loss_and_leave_the_backbone_as_it_was(method: str) -> None:
    backbone = _backbone()
    net, before = _adapted(backbone, method), copy.deepcopy(backbone.network.state_dict())
    learner = Learner(net, _recipe(method))
    losses = []
    for step in range(60):
        learner.tally_D3.zero_()
        learner.step([_batch(step % 3, step)])
        losses.append(float(learner.tally_D3.sum(0)[0]))
    assert sum(losses[-3:]) < 0.8 * sum(losses[:3])
    start = _adapted(backbone, method)  # not only the classifiers have learned
    for (name, parameter), (_, old) in zip(net.named_parameters(), start.named_parameters(), strict=True):
        assert torch.equal(parameter, old) != parameter.requires_grad, name
    assert all(torch.equal(before[name], tensor) for name, tensor in net.network.state_dict().items())
    assert all(torch.equal(before[name], tensor) for name, tensor in backbone.network.state_dict().items())


@every_method
def test_interleaved_domains_give_the_logits_of_separate_ones(method: str) -> None:
    together, alone = _stirred(method)[1], {name: _stirred(method)[1] for name in CLASSES}
    for training in (True, False):
        together.train(training)
        for step, domain in enumerate(["a", "b", "a", "c", "b", "a"]):
            index = list(CLASSES).index(domain)
            expected = alone[domain].train(training)(_batch(index, step).images, domain)
            assert torch.equal(together(_batch(index, step).images, domain), expected)


@pytest.mark.slow
@every_method
def test_learning_from_one_domain_leaves_the_logits_of_the_others_alone_unless_they_learn_together(method: str) -> None:
    net = _stirred(method)[1]
    images = _batch(0, 9).images
    before = {domain: net(images, domain).detach() for domain in CLASSES}
    learner = Learner(net.train(), _recipe(method))
    for step in range(3):
        learner.step([_batch(1, step)])
    net.eval()
    changed = {domain for domain in CLASSES if not torch.equal(before[domain], net(images, domain).detach())}
    assert "b" in changed
    assert changed == {"b"} or METHODS[_choice(method)[0]].together


@pytest.mark.slow
@every_method
def test_state_saved_to_a_file_and_read_again_goes_on_bit_for_bit(method: str, tmp_path: Path) -> None:
    straight, first, second = (Learner(_adapted(_backbone(), method), _recipe(method)) for _ in range(3))
    for step in range(6):
        straight.step([_batch(step % 3, step)])
    for step in range(3):
        first.step([_batch(step % 3, step)])
    identity = _identity(method)
    save_checkpoint(tmp_path / "checkpoint", first, Position(step=3, total_steps=6), identity)
    second.restore(read_checkpoint(tmp_path / "checkpoint").tensors)
    logits = [learner.net.eval()(_batch(0, 8).images, "b") for learner in (first, second)]
    assert torch.equal(logits[0], logits[1])
    second.net.train()
    for step in range(3, 6):
        second.step([_batch(step % 3, step)])
    expected, found = straight.tensors(), second.tensors()
    assert found.keys() == expected.keys()
    assert all(torch.equal(found[name], expected[name]) for name in expected)


def _learned(net: MultiDomainNet) -> Iterator[tuple[str, Tensor]]:
    """Everything the method holds but switches, whose numbers only decide, and what only training needs."""
    skipped = ("scores", "open_DM", "fixed_DM", "num_batches_tracked", "accuracy_DE", "seen_D")
    for name, tensor in net.state_dict().items():
        if not name.startswith("network.") and not any(part in name for part in skipped):
            yield name, tensor


class _Logits:
    """The logits of a network: the brute force against which costs are checked."""

    def __init__(self, net: MultiDomainNet) -> None:
        self.net = net
        self.images = _batch(0, 7).images
        with torch.no_grad():
            self.expected = {domain: net(self.images, domain) for domain in CLASSES}
        self.order = list(CLASSES)  # neighbours are often tensors of the same domain, which is asked first

    @torch.no_grad()
    def need(self, tensor: Tensor) -> bool:
        """Return whether some domain's logits depend on a tensor."""
        kept = tensor.clone()
        tensor.copy_(kept + 0.1 + 0.1 * torch.rand(kept.shape, generator=torch.Generator().manual_seed(3)))
        changed = (d for d in self.order if not torch.equal(self.net(self.images, d), self.expected[d]))
        domain = next(changed, None)
        tensor.copy_(kept)
        self.order.sort(key=lambda other: other != domain)
        return domain is not None


@pytest.mark.slow
@every_backbone
@every_method
def test_the_claimed_bits_are_those_of_the_tensors_that_the_logits_depend_on(
    method: str, make: Callable[[], Backbone]
) -> None:
    backbone, net = _stirred(method, make=make)
    costs = network_costs(net, backbone.probe)
    bits = 0
    logits, shared = _Logits(net), _shared_kernels(net)
    for _, tensor in _learned(net):
        if (layer := shared.get(tensor.data_ptr())) is not None:  # those that no domain has on are not stored
            bits += 32 * _weights_that_matter(logits, layer, tensor)
            continue
        bits += 32 * tensor.numel() * logits.need(tensor)
    for adapter in net.adapters:
        bits += sum(row.numel() for row in adapter.parameters() if row.ndim == 2 and row is _scores(net))
        bits += sum(scores.numel() for scores in adapter.scores) if isinstance(adapter, ChosenResiduals) else 0
    for name, tensor in net.network.state_dict().items():
        if name.endswith("num_batches_tracked"):
            continue
        if name.removesuffix(".weight") in {conv.name for conv in convolutions(net.network)}:
            bits += 32 * _weights_that_matter(logits, name, tensor)
        else:
            bits += 32 * tensor.numel() * logits.need(tensor)
    assert costs.params_bits() + costs.side_bits + sum(own.side_bits for own in costs.own) == bits
    assert costs.stored_bytes() == -(-bits // 8)


def _shared_kernels(net: MultiDomainNet) -> dict[int, str]:
    """Return the backbone's names of kernels that are trained by all domains and switched by each, by address."""
    copies = [adapter.tensors(0, {}) for adapter in net.adapters if isinstance(adapter, SharedConvolutions)]
    return {t.data_ptr(): name for tensors in copies for name, t in tensors.items() if name.endswith(".weight")}


def _scores(net: MultiDomainNet) -> Tensor | None:
    return net.switches.scores_DM if net.switches else None


def _weights_that_matter(logits: _Logits, name: str, weight: Tensor) -> int:
    """Count the frozen weights on which some domain's own weights or logits depend."""
    if not logits.need(weight):
        return 0
    net = logits.net
    needed = torch.zeros_like(weight, dtype=torch.bool)
    kept = weight.clone()
    for domain in CLASSES:
        before = net.tensors(domain).get(name)
        if before is None:
            return weight.numel()
        with torch.no_grad():
            before = before.clone()
            weight.copy_(kept + 1)
            needed |= net.tensors(domain)[name] != before
            weight.copy_(kept)
    return int(needed.sum())


@every_backbone
@every_method
def test_the_claimed_macs_are_those_of_the_convolutions_that_run(method: str, make: Callable[[], Backbone]) -> None:
    backbone, net = _stirred(method, make=make)
    costs = network_costs(net, backbone.probe)
    for domain in CLASSES:
        with FlopCounterMode(display=False) as counter, torch.no_grad():
            net(_batch(0).images[:1], domain)
        dense = sum(n for op, n in counter.get_flop_counts()["Global"].items() if "convolution" in str(op)) // 2
        tensors, skipped = net.tensors(domain), 0
        for conv in convolutions(net.network):
            weight = tensors.get(f"{conv.name}.weight")
            if weight is not None:  # kernels of zeros need not be computed
                dead = int((weight == 0).flatten(2).all(2).sum())
                skipped += dead * conv.kernel_area * backbone.probe.positions[conv.name]
        assert costs.macs(domain) == dense - skipped


@every_method
def test_at_its_start_a_method_is_the_backbone(method: str) -> None:
    backbone = _backbone()
    net = _adapted(backbone, method).eval()
    images = _batch(0).images
    features = backbone.network.eval()(images)
    torch.testing.assert_close(net(images, "b"), F.linear(features, *net.heads[1].parameters()))


class _Scales(Adapter):
    """A scale per domain and output channel."""

    def __init__(self, network: nn.Module, num_domains: int) -> None:
        super().__init__()
        start = {f"{conv.name}.weight": torch.ones(conv.out_channels, 1, 1, 1) for conv in convolutions(network)}
        self.scales = PerDomain(start, num_domains)

    def tensors(self, domain: int, frozen: Mapping[str, Tensor]) -> dict[str, Tensor]:
        return {name: frozen[name] * scale for name, scale in self.scales.of(domain).items()}

    def cost(self, domain: int, run: Probe) -> Cost:
        return Cost(weights=sum(scale.numel() for scale in self.scales.of(domain).values()))


def _add(monkeypatch: pytest.MonkeyPatch, kind: type[_Scales]) -> None:
    def build(backbone: Backbone, classes: Sequence[int], _options: object) -> list[Adapter]:
        return [kind(backbone.network, len(classes))]

    monkeypatch.setitem(METHODS, "scales", Method("", "", "", build))


def test_a_method_added_to_the_table_is_held_to_the_same_contract(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    _add(monkeypatch, _Scales)
    test_a_few_steps_lower_the_loss_and_leave_the_backbone_as_it_was("scales")
    test_interleaved_domains_give_the_logits_of_separate_ones("scales")
    test_learning_from_one_domain_leaves_the_logits_of_the_others_alone_unless_they_learn_together("scales")
    test_state_saved_to_a_file_and_read_again_goes_on_bit_for_bit("scales", tmp_path)
    test_the_claimed_bits_are_those_of_the_tensors_that_the_logits_depend_on("scales", _backbone)
    test_the_claimed_macs_are_those_of_the_convolutions_that_run("scales", _backbone)
    test_at_its_start_a_method_is_the_backbone("scales")


class _OfTheFirstDomain(_Scales):
    """A mistake: every domain uses and changes the scales of the first."""

    def tensors(self, domain: int, frozen: Mapping[str, Tensor]) -> dict[str, Tensor]:
        return super().tensors(0, frozen)


class _ChangesTheBackbone(_Scales):
    """A mistake: the frozen weights themselves are scaled."""

    def tensors(self, domain: int, frozen: Mapping[str, Tensor]) -> dict[str, Tensor]:
        with torch.no_grad():
            for name in self.scales.of(domain):
                frozen[name].mul_(1.001)
        return super().tensors(domain, frozen)


class _CountsPasses(_Scales):
    """A mistake: a number that the scales depend on is not saved."""

    passes = 0

    def tensors(self, domain: int, frozen: Mapping[str, Tensor]) -> dict[str, Tensor]:
        self.passes += 1
        return {name: tensor * (1 + 0.01 * self.passes) for name, tensor in super().tensors(domain, frozen).items()}


class _Cheap(_Scales):
    """A mistake: the scales of a domain are not counted."""

    def cost(self, domain: int, run: Probe) -> Cost:
        return Cost()


class _Busy(_Scales):
    """A mistake: computation is claimed that does not happen."""

    def cost(self, domain: int, run: Probe) -> Cost:
        return Cost(weights=super().cost(domain, run).weights, macs=1)


class _StartsAtTwo(_Scales):
    """A mistake: the start is not the backbone."""

    def tensors(self, domain: int, frozen: Mapping[str, Tensor]) -> dict[str, Tensor]:
        return {name: tensor * 2 for name, tensor in super().tensors(domain, frozen).items()}


@pytest.mark.parametrize(
    ("kind", "check"),
    [
        (_ChangesTheBackbone, test_a_few_steps_lower_the_loss_and_leave_the_backbone_as_it_was),
        (
            _OfTheFirstDomain,
            test_learning_from_one_domain_leaves_the_logits_of_the_others_alone_unless_they_learn_together,
        ),
        (_CountsPasses, test_interleaved_domains_give_the_logits_of_separate_ones),
        (_StartsAtTwo, test_at_its_start_a_method_is_the_backbone),
    ],
)
def test_a_broken_method_is_noticed(
    kind: type[_Scales], check: Callable[[str], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    _add(monkeypatch, kind)
    _backbone.cache_clear()
    with pytest.raises(AssertionError):
        check("scales")
    _backbone.cache_clear()  # one of them changes it


@pytest.mark.parametrize(
    ("kind", "check"),
    [
        (_Cheap, test_the_claimed_bits_are_those_of_the_tensors_that_the_logits_depend_on),
        (_Busy, test_the_claimed_macs_are_those_of_the_convolutions_that_run),
    ],
)
def test_wrong_costs_are_noticed(
    kind: type[_Scales], check: Callable[[str, Callable[[], Backbone]], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    _add(monkeypatch, kind)
    with pytest.raises(AssertionError):
        check("scales", _backbone)


def test_a_state_that_is_not_saved_is_noticed(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    _add(monkeypatch, _CountsPasses)
    with pytest.raises(AssertionError):
        test_state_saved_to_a_file_and_read_again_goes_on_bit_for_bit("scales", tmp_path)
