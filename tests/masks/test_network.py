"""The multi-domain network: domains do not disturb each other, and the backbone never changes."""

import copy
from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from prunus.backbone.zoo import load_backbone
from prunus.config import BackboneChoice
from prunus.errors import UnknownNameError
from prunus.masks.layer_copies import DomainNorms
from prunus.masks.layout import switch_layout
from prunus.masks.network import MultiDomainNet
from prunus.masks.switches import Switches
from prunus.methods.table import adapt
from tests.makers.tiny_training import tiny_net

CLASSES = {"a": ["x", "y"], "b": ["x", "y", "z"], "c": ["u", "v"]}


def _net(method: str = "union", name: str = "wrn14_2", size: int = 32) -> MultiDomainNet:
    weights = "random" if name.startswith("timm/") else "pretrained"
    net = adapt(load_backbone(BackboneChoice(name=name, weights=weights, size=size)), CLASSES, method)
    if net.switches:
        with torch.no_grad():
            net.switches.scores_DM.copy_(
                torch.randn(net.switches.scores_DM.shape, generator=torch.Generator().manual_seed(1))
            )
    return net


def _images(seed: int, size: int = 32, count: int = 4) -> Tensor:
    return torch.randn(count, 3, size, size, generator=torch.Generator().manual_seed(seed))


def test_interleaved_domains_give_the_same_logits_as_separate_ones_in_training_too() -> None:
    together, alone = _net(), {name: _net() for name in CLASSES}
    for step, domain in enumerate(["a", "b", "a", "c", "b", "a"]):
        assert torch.equal(together(_images(step), domain), alone[domain](_images(step), domain))
    together.eval()
    for domain, net in alone.items():
        assert torch.equal(together(_images(9), domain), net.eval()(_images(9), domain))


def test_a_step_on_one_domain_leaves_the_norms_of_the_others_alone() -> None:
    net = _net()
    before = {d: {k: v.clone() for k, v in net.tensors(d).items() if "norm" in k} for d in CLASSES}
    net(_images(0), "b")
    changed = {d: any(not torch.equal(before[d][k], net.tensors(d)[k]) for k in before[d]) for d in CLASSES}
    assert changed == {"a": False, "b": True, "c": False}


def test_with_all_switches_on_the_features_are_the_backbones() -> None:
    backbone = load_backbone(BackboneChoice(name="wrn14_2"))
    net = adapt(backbone, CLASSES, "union").eval()
    expected = backbone.network.eval()(_images(3)) @ net.heads[0].weight.T + net.heads[0].bias
    torch.testing.assert_close(net(_images(3), "a"), expected)


def test_masked_logits_equal_a_copy_of_the_network_with_zeroed_kernels() -> None:
    net = _net().eval()
    assert net.switches is not None
    plain = copy.deepcopy(net.network)
    with torch.no_grad():
        for name, mask in net.switches.layer_masks().items():
            plain.get_submodule(name).weight.mul_(mask[1])  # type: ignore[operator]
    expected = plain(_images(5)) @ net.heads[1].weight.T + net.heads[1].bias
    torch.testing.assert_close(net(_images(5), "b"), expected)


@pytest.mark.parametrize(("name", "kind"), [("timm/convnext_atto", nn.LayerNorm), ("timm/resnet10t", nn.BatchNorm2d)])
def test_every_kind_of_norm_is_learned_per_domain(name: str, kind: type[nn.Module]) -> None:
    net = _net(name=name, size=64)
    norms = [module for module in net.network.modules() if isinstance(module, kind)]
    assert norms
    logits = net(_images(0, 64), "a")
    F.cross_entropy(logits, torch.tensor([0, 1, 0, 1])).backward()  # type: ignore[no-untyped-call]
    own = next(part for part in net.adapters if isinstance(part, DomainNorms))
    assert all(p.grad is not None for p in own.copies.sets[0].parameters())
    assert all(p.grad is None for p in own.copies.sets[1].parameters())
    assert len(list(own.copies.sets[0].parameters())) >= 2 * len(norms)


def test_group_norms_are_learned_per_domain() -> None:
    network = nn.Sequential(nn.Conv2d(3, 4, 3), nn.GroupNorm(2, 4), nn.AdaptiveAvgPool2d(1), nn.Flatten())
    assert set(DomainNorms(network, 2).tensors(1, {})) == {"1.weight", "1.bias"}


def test_linear_layers_inside_the_backbone_are_switched_and_stay_frozen() -> None:
    network = nn.Sequential(nn.Conv2d(3, 4, 3), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(4, 6))
    adapters = [Switches(switch_layout(network), len(CLASSES)), DomainNorms(network, len(CLASSES))]
    net = MultiDomainNet(network, 6, CLASSES, adapters)
    assert set(net.tensors("a")) == {"0.weight", "3.weight"}
    assert not any(p.requires_grad for p in net.network.parameters())


def test_feature_extraction_keeps_the_shared_norms_in_evaluation_mode() -> None:
    net = _net("feature").train()
    assert not any(module.training for module in net.network.modules())


def test_an_unknown_domain_names_the_nearest() -> None:
    with pytest.raises(UnknownNameError, match="unknown domain 'bb'"):
        _net()(_images(0), "bb")


def test_heads_start_the_same_whatever_was_drawn_before() -> None:
    first = _net()
    torch.rand(7)
    assert torch.equal(first.heads[2].weight, _net().heads[2].weight)  # type: ignore[arg-type]


@pytest.mark.parametrize(("method", "compiles"), [("ba2", True), ("bn", True), ("parallel_adapters", False)])
def test_the_backbone_is_compiled_unless_a_method_adds_branches(
    method: str, compiles: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    compiled = []

    def stand_in(function: Callable[..., Tensor]) -> Callable[..., Tensor]:
        compiled.append(function)
        return lambda *arguments: function(*arguments) * 0

    monkeypatch.setattr(torch, "compile", stand_in)
    net = tiny_net(method).eval()
    images = torch.randn(2, 3, 9, 9)
    before = net.features_and_logits(images, "a")[0]
    net.compile_network()
    after = net.features_and_logits(images, "a")[0]
    assert before is not None
    assert after is not None
    assert len(compiled) == compiles
    assert torch.equal(after, before * (not compiles))
