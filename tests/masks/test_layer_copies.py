"""Copies of layers: which layers are norms, what domains share, and what the copies cost."""

import copy

import pytest
import torch
from torch import nn

from prunus.masks.layer_copies import DomainNorms, LayerCopies, SharedConvolutions, is_norm, norm_layers
from prunus.methods.costs import network_costs
from tests.makers.tiny_training import CLASSES, tiny_backbone, tiny_net

WEIGHTS = 6 * 3 * 9  # of the first convolution
BIASES = 6
NORM = 4 * 6  # weight, bias, mean and variance


class FrozenNorm(nn.Module):
    """A norm by its name only."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(3))


class NormlessName(nn.Module):
    """A name with "Norm" in it, but no weights."""


class ConvNormBlock(nn.Module):
    """A name with "Norm" in it, and weights only in its parts."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(3, 3, 1)


@pytest.mark.parametrize(
    ("module", "expected"),
    [
        (nn.BatchNorm2d(3), True),
        (nn.GroupNorm(1, 3), True),
        (nn.LayerNorm(3), True),
        (FrozenNorm(), True),
        (NormlessName(), False),
        (ConvNormBlock(), False),
        (nn.Conv2d(3, 3, 1), False),
    ],
    ids=lambda value: type(value).__name__,
)
def test_norms_are_known_by_class_or_by_name(module: nn.Module, expected: bool) -> None:
    assert is_norm(module) is expected


def test_norms_are_listed_by_name() -> None:
    assert norm_layers(tiny_backbone().network) == ["1"]


def test_every_domain_has_its_own_copy_that_starts_as_the_backbones() -> None:
    network = tiny_backbone().network
    copies = LayerCopies(network, ["0", "1"], 2)
    first, second = copies.tensors(0, {}), copies.tensors(1, {})
    assert first.keys() == {"0.weight", "0.bias", "1.weight", "1.bias"} | {
        f"1.{name}" for name in ("running_mean", "running_var", "num_batches_tracked")
    }
    assert torch.equal(first["0.weight"], network.get_submodule("0").weight)  # type: ignore[arg-type]
    with torch.no_grad():
        first["0.weight"].zero_()
    assert bool((second["0.weight"] != 0).any())
    assert copies.own_norms


def test_copies_that_are_trained_together_are_the_same_for_all_domains() -> None:
    copies = LayerCopies(tiny_backbone().network, ["0", "1"], 2, together=True)
    assert copies.tensors(0, {})["0.weight"] is copies.tensors(1, {})["0.weight"]
    assert not copies.own_norms


def test_convolution_weights_are_counted_apart_from_biases_and_norms() -> None:
    backbone = tiny_backbone()
    cost = LayerCopies(backbone.network, ["0", "1"], 2).cost(1, backbone.probe)
    assert (cost.weights, cost.side, cost.shared_weights) == (WEIGHTS, BIASES + NORM, 0)
    assert cost.owned == {"0"}


def test_what_is_shared_is_counted_once() -> None:
    backbone = tiny_backbone()
    copies = LayerCopies(backbone.network, ["0", "1"], 2, together=True)
    first, second = (copies.cost(domain, backbone.probe) for domain in (0, 1))
    assert (first.weights, first.shared_weights, first.side) == (0, WEIGHTS, BIASES + NORM)
    assert (second.shared_weights, second.side) == (WEIGHTS, 0)


def test_norms_cost_no_convolution_weights() -> None:
    backbone = tiny_backbone()
    cost = DomainNorms(backbone.network, 2).cost(0, backbone.probe)
    assert (cost.weights, cost.side, cost.owned) == (0, NORM, frozenset())


def test_shared_convolutions_are_one_copy_that_starts_as_the_backbones() -> None:
    network = tiny_backbone().network
    shared = SharedConvolutions(network, ["0", "3"])
    first, second = shared.tensors(0, {}), shared.tensors(1, {})
    assert first.keys() == {"0.weight", "0.bias", "3.weight", "3.bias"}
    for name, tensor in first.items():
        assert tensor is second[name]
        assert torch.equal(tensor, network.state_dict()[name])
        assert tensor is not network.get_parameter(name)


def test_a_step_in_one_domain_changes_the_shared_kernels_of_all_that_use_them() -> None:
    net = tiny_net("exact")
    images = torch.randn(4, 3, 9, 9)
    before, backbone = net.eval()(images, "b").detach(), copy.deepcopy(net.network.state_dict())
    optimizer = torch.optim.SGD([p for p in net.parameters() if p.requires_grad], lr=0.1)
    net.train()(images, "a").square().sum().backward()
    optimizer.step()
    changed = {name for name, tensor in net.tensors("b").items() if name.endswith("weight") and "1." not in name}
    assert changed == {"0.weight", "3.weight"}
    assert not torch.equal(net.eval()(images, "b"), before)
    assert all(torch.equal(backbone[name], tensor) for name, tensor in net.network.state_dict().items())


def test_shared_convolutions_cost_the_union_of_what_domains_use_and_no_kernel_twice() -> None:
    backbone, net = tiny_backbone(), tiny_net("exact")
    assert net.switches is not None
    with torch.no_grad():
        net.switches.scores_DM.copy_(torch.randn(net.switches.scores_DM.shape))
    costs = network_costs(net, backbone.probe)
    union = net.switches.masks().any(0).sum()
    weights = 9 * int(union)  # all kernels are 3x3
    assert costs.params_bits() == 32 * weights + 2 * net.switches.layout.num_switches
    biases = 6 + 5
    heads = [(5 + 1) * len(labels) for labels in CLASSES.values()]
    assert [own.side_bits for own in costs.own] == [32 * (NORM + heads[0] + biases), 32 * (NORM + heads[1])]
    assert costs.side_bits == 0  # nothing of the backbone is read
