"""Copies of layers: which layers are norms, what domains share, and what the copies cost."""

import pytest
import torch
from torch import nn

from prunus.masks.layer_copies import DomainNorms, LayerCopies, is_norm, norm_layers
from tests.makers.tiny_training import tiny_backbone

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


@pytest.mark.parametrize(
    ("module", "expected"),
    [
        (nn.BatchNorm2d(3), True),
        (nn.GroupNorm(1, 3), True),
        (nn.LayerNorm(3), True),
        (FrozenNorm(), True),
        (NormlessName(), False),
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
