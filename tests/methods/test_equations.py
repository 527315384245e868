"""Every method's weights or outputs against its paper's equation, written once more, in float64."""

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from prunus.backbone.probe import probe_network
from prunus.backbone.zoo import Backbone
from prunus.config import Settings
from prunus.images import Preprocess
from prunus.masks.network import MultiDomainNet
from prunus.masks.switches import Switches
from prunus.methods import da3, modulation, taps
from prunus.methods.da3 import AddedAttention
from prunus.methods.early_exits import Exits
from prunus.methods.table import adapt
from prunus.methods.weight_masks import AffineSwitches

CLASSES = {"a": ["x", "y"], "b": ["x", "y", "z"]}
CONV, STRIDED = "0", "3"


def _network() -> nn.Module:
    network = nn.Sequential(
        nn.Conv2d(3, 6, 3, padding=1, bias=False),
        nn.BatchNorm2d(6),
        nn.ReLU(),
        nn.Conv2d(6, 4, 3, stride=2, padding=1, groups=2),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
    )
    network.feature_info = [{"module": "2"}, {"module": "3"}]  # type: ignore[assignment]  # where exits may lie
    return network


def _net(method: str, options: Settings | None = None) -> MultiDomainNet:
    torch.manual_seed(0)
    network = _network()
    preprocess = Preprocess(size=9, resize=9, mean=(0, 0, 0), std=(1, 1, 1))
    net = adapt(Backbone("tiny", network, preprocess, probe_network(network, 9)), CLASSES, method, options=options)
    with torch.no_grad():
        for parameter in net.parameters():
            if parameter.requires_grad:
                parameter.add_(torch.randn(parameter.shape) * 0.3)
    return net.double().eval()


def _images() -> Tensor:
    return torch.randn(4, 3, 9, 9, generator=torch.Generator().manual_seed(5), dtype=torch.float64)


def _frozen(net: MultiDomainNet, layer: str) -> Tensor:
    return dict(net.network.named_parameters())[f"{layer}.weight"]


def _changed(net: MultiDomainNet, layer: str, domain: str) -> Tensor:
    return net.tensors(domain)[f"{layer}.weight"].detach()


def _outputs(net: MultiDomainNet, domain: str, layer: str) -> tuple[Tensor, Tensor]:
    """A layer's input and what the next layer gets from it."""
    seen: list[Tensor] = []
    before = net.network.get_submodule(layer).register_forward_pre_hook(lambda _m, inputs: seen.append(inputs[0]))
    follower = str(int(layer) + 1)
    after = net.network.get_submodule(follower).register_forward_pre_hook(lambda _m, inputs: seen.append(inputs[0]))
    with torch.no_grad():
        net(_images(), domain)
    before.remove()
    after.remove()
    return seen[0], seen[1]


def _assert_same(found: Tensor, expected: Tensor) -> None:
    assert found.dtype == torch.float64
    torch.testing.assert_close(found, expected, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("layer", [CONV, STRIDED])
def test_ba2_multiplies_every_kernel_by_its_switch(layer: str) -> None:
    net = _net("ba2")
    assert net.switches is not None
    weight, start = _frozen(net, layer), 0 if layer == CONV else 18
    for o in range(weight.shape[0]):
        for i in range(weight.shape[1]):
            score = float(net.switches.scores_DM.detach()[1, start + o * weight.shape[1] + i])
            _assert_same(_changed(net, layer, "b")[o, i], weight[o, i] if score > 0 else weight[o, i] * 0)


@pytest.mark.parametrize(
    ("method", "threshold"), [("piggyback", 5e-3), ("weight_transform", 0.0), ("affine_masks", 0.0)]
)
def test_masks_over_weights_follow_their_papers(method: str, threshold: float) -> None:
    net = _net(method)
    switches = net.adapters[0]
    assert isinstance(switches, Switches)
    weight = _frozen(net, STRIDED)
    mask = (switches.scores_DM[1, 6 * 3 * 9 :].reshape(weight.shape) > threshold).double()
    assert 0.2 < float(mask.mean()) < 0.9
    expected = weight * mask
    if isinstance(switches, AffineSwitches):
        k = switches.coefficients_DK[1].detach().tolist()
        count = 3 if method == "weight_transform" else 4
        assert len(k) == 2 * count
        k0, k1, k2, *rest = k[count:]
        expected = k0 * weight + k1 * torch.ones_like(weight) + k2 * mask
        expected = expected + rest[0] * weight * mask if rest else expected
    _assert_same(_changed(net, STRIDED, "b"), expected)


@pytest.mark.parametrize("layer", [CONV, STRIDED])
def test_a_series_adapter_adds_the_projection_of_the_normalized_output(layer: str) -> None:
    net = _net("series_adapters")
    state = net.adapters[0].state_dict()
    place = [CONV, STRIDED].index(layer)
    unit = {
        name: state[f"units.1.{place}.{name}"]
        for name in ("0.running_mean", "0.running_var", "0.weight", "0.bias", "1.weight")
    }
    x, found = _outputs(net, "b", layer)
    y = net.network.get_submodule(layer)(x)
    view = (1, -1, 1, 1)
    normal = (y - unit["0.running_mean"].view(view)) / (unit["0.running_var"].view(view) + 1e-5).sqrt()
    normal = normal * unit["0.weight"].view(view) + unit["0.bias"].view(view)
    _assert_same(found, y + torch.einsum("oi,bihw->bohw", unit["1.weight"][:, :, 0, 0], normal))


@pytest.mark.parametrize("layer", [CONV, STRIDED])
def test_a_parallel_adapter_adds_the_projection_of_the_input(layer: str) -> None:
    net = _net("parallel_adapters")
    adapter = net.adapters[0].state_dict()[f"weights.sets.1.{layer}"]
    conv = net.network.get_submodule(layer)
    x, found = _outputs(net, "b", layer)
    assert isinstance(conv, nn.Conv2d)
    seen = x[:, :, :: conv.stride[0], :: conv.stride[1]]
    groups = [
        torch.einsum("oi,bihw->bohw", weight[:, :, 0, 0], part)
        for weight, part in zip(adapter.chunk(conv.groups), seen.chunk(conv.groups, 1), strict=True)
    ]
    _assert_same(found, conv(x) + torch.cat(groups, 1))


def test_modulation_scales_every_kernel_by_a_product_of_low_rank() -> None:
    net = _net("modulation", modulation.Options(rank=2))
    state, weight = net.adapters[0].state_dict(), _frozen(net, CONV)
    u, v = state["outputs.sets.1.0"], state["inputs.sets.1.0"]
    assert (u.shape, v.shape) == ((6, 2), (2, 3))
    expected = torch.einsum("oikl,or,ri->oikl", weight, u, v)
    _assert_same(_changed(net, CONV, "b"), expected)


@pytest.mark.parametrize(("score", "chosen"), [(0.2, 1), (0.1, 0), (-1.0, 0)])
def test_taps_adds_the_residual_where_the_score_is_above_the_threshold(score: float, chosen: int) -> None:
    net = _net("taps", taps.Options(sparsity=0.7))
    part = net.adapters[0]
    assert isinstance(part, taps.ChosenResiduals)
    with torch.no_grad():
        part.scores[1].copy_(torch.tensor([score, 0.2], dtype=torch.float64))
    residual = part.state_dict()[f"residuals.sets.1.{CONV}"]
    _assert_same(_changed(net, CONV, "b"), _frozen(net, CONV) + chosen * residual)
    loss = part.loss(1, torch.zeros(1), torch.zeros(1))
    loss.backward()  # type: ignore[no-untyped-call]
    assert float(loss.detach()) == pytest.approx(0.7 * (abs(score) + 0.2) / 2)
    assert part.scores[1].grad is not None
    assert part.scores[1].grad.tolist() == pytest.approx([0.35 if score > 0 else -0.35, 0.35])


def test_da3_adds_a_coarse_attention_map_and_a_bias() -> None:
    net = _net("da3", da3.Options(pooling=2))
    state = net.adapters[0].state_dict()
    weight, scale = state[f"attention.sets.1.{CONV}"], state[f"scales.sets.1.{CONV}"]
    assert isinstance(net.adapters[0], AddedAttention)
    x, found = _outputs(net, "b", CONV)
    y = net.network.get_submodule(CONV)(x)
    expected = y.clone()
    for row, column in ((r, c) for r in range(9) for c in range(9)):
        coarse_row, coarse_column = row * 5 // 9, column * 5 // 9
        rows = slice(coarse_row * 9 // 5, -(-(coarse_row + 1) * 9 // 5))
        columns = slice(coarse_column * 9 // 5, -(-(coarse_column + 1) * 9 // 5))
        pooled = x[:, :, rows, columns].mean((2, 3))
        expected[:, :, row, column] += scale[:, 0, 0] * torch.sigmoid(pooled @ weight[:, :, 0, 0].T)
    _assert_same(found, expected.detach())
    assert set(net.tensors("b")) == {"1.bias"}


def test_an_early_exit_normalizes_projects_and_classifies_the_mean() -> None:
    net = _net("early_exits", _exits(2))
    exits = net.adapters[2]
    assert isinstance(exits, Exits)
    exits.measured(0, torch.tensor([0.5, 0.9]))
    exits.measured(1, torch.tensor([0.885, 0.9]))
    assert [exits.stop(0), exits.stop(1)] == [None, "2"]
    norm = {name.removeprefix("1."): tensor for name, tensor in net.tensors("b").items() if name.startswith("1.")}
    _, y = _first_layers(net, "b")
    hidden = F.relu(F.batch_norm(y, norm["running_mean"], norm["running_var"], norm["weight"], norm["bias"]))
    state = {name.removeprefix("exits.1.0."): tensor for name, tensor in exits.state_dict().items()}
    own = [state[f"0.{name}"] for name in ("running_mean", "running_var", "weight", "bias")]
    normal = F.relu(F.batch_norm(hidden, *own))
    assert state["2.weight"].shape[:2] == (4, 6)  # features of the network, channels of the stage
    projected = torch.einsum("oi,bihw->bohw", state["2.weight"][:, :, 0, 0], normal)
    expected = projected.mean((2, 3)) @ state["5.weight"].T + state["5.bias"]
    _assert_same(net(_images(), "b").detach(), expected.detach())


def _exits(count: int) -> Settings:
    from prunus.methods.early_exits import Options

    return Options(exits=count)


def _first_layers(net: MultiDomainNet, domain: str) -> tuple[Tensor, Tensor]:
    adapter = net.adapters[0].state_dict()[f"weights.sets.{net.index(domain)}.{CONV}"]
    return _images(), net.network.get_submodule(CONV)(_images()) + F.conv2d(_images(), adapter)


def test_all_exits_are_trained_at_once() -> None:
    net = _net("early_exits", _exits(2)).train()
    exits, labels = net.adapters[2], torch.tensor([0, 1, 1, 0])
    assert isinstance(exits, Exits)
    logits = net(_images(), "a")
    early = exits._early_logits[0].clone()
    extra = net.extra_loss("a", logits, labels)
    assert extra is not None
    _assert_same(extra.detach(), F.cross_entropy(early, labels).detach())
    assert not exits.seen_D.any()  # training images do not choose an exit


def test_hard_sharing_gives_domains_their_own_early_layers_and_common_late_ones() -> None:
    net = _net("hard_sharing")
    first, second = net.tensors("a"), net.tensors("b")
    assert not torch.equal(first[f"{CONV}.weight"], second[f"{CONV}.weight"])
    assert first[f"{STRIDED}.weight"] is second[f"{STRIDED}.weight"]
    assert not torch.equal(first[f"{STRIDED}.weight"], _frozen(net, STRIDED))


def test_finetuning_replaces_every_tensor_and_the_baselines_none_or_norms() -> None:
    everything = set(_network().state_dict())
    assert set(_net("finetune").tensors("b")) == everything
    assert set(_net("bn").tensors("b")) == {name for name in everything if name.startswith("1.")}
    assert _net("feature").tensors("b") == {}
