"""A trace holds every result's shape, follows changes in place, and says why a network cannot be traced."""

import pytest
import torch
from torch import Tensor, nn

from prunus.errors import BackboneError
from prunus.lowering.trace import trace
from tests.makers.odd_networks import OddNetwork, mean


def test_shapes_are_those_of_one_image() -> None:
    traced = trace(OddNetwork(lambda m, x: mean(m.c(m.a(x)))), 9)
    shapes = {str(node.target): traced.shapes[node.name] for node in traced.graph.nodes if node.op != "output"}
    assert shapes == {"x": (1, 3, 9, 9), "a": (1, 4, 9, 9), "c": (1, 4, 9, 9), "mean": (1, 4)}


def test_later_readers_of_a_changed_tensor_read_the_change() -> None:
    def run(m: OddNetwork, x: Tensor) -> Tensor:
        y = m.a(x)
        return mean(m.inplace(y) + y)

    traced = trace(OddNetwork(run), 9)
    nodes = {node.name: node for node in traced.graph.nodes}
    assert [read.name for read in nodes["add"].args] == ["inplace", "inplace"]


def test_a_network_that_decides_by_the_image_says_so_and_keeps_its_mode() -> None:
    class Deciding(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.conv = nn.Conv2d(3, 4, 3)

        def forward(self, x: Tensor) -> Tensor:
            y: Tensor = self.conv(x)
            return (y if bool(y.sum() > 0) else -y).mean((2, 3))

    network = Deciding().train()
    with pytest.raises(BackboneError, match=r"cannot be traced as a graph .* choose a network without control flow"):
        trace(network, 8)
    assert network.training


def test_norms_and_dropout_are_traced_as_they_are_evaluated() -> None:
    network = nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.Dropout(0.5)).train()
    before = {name: tensor.clone() for name, tensor in network.state_dict().items()}
    trace(network, 8)
    assert all(torch.equal(tensor, before[name]) for name, tensor in network.state_dict().items())
