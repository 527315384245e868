"""Only the pixels that are read are computed, and the logits stay the same."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from prunus.graph.network import Node
from prunus.graph.operations import Attention, Conv
from prunus.lowering.build import build_graph
from prunus.lowering.needed_pixels import compute_needed_pixels
from tests.lowering.test_build import assert_same
from tests.makers.graph_bundles import convolution, make_graph
from tests.makers.masked_networks import tiny_net
from tests.makers.token_networks import ONE, TinyTransformer


def test_the_last_block_is_computed_for_the_class_token_alone() -> None:
    torch.manual_seed(0)
    _, net = tiny_net(TinyTransformer())
    network = build_graph(net)
    pixels = {
        operation.layer: network.shapes[number + 1][2]
        for number, operation in enumerate(network.graph)
        if isinstance(operation, Conv)
    }
    assert (pixels["blocks.0.proj"], pixels["blocks.0.mlp.2"], pixels["blocks.1.qkv"]) == (17, 17, 17)
    assert (pixels["blocks.1.proj"], pixels["blocks.1.mlp.0"], pixels["blocks.1.mlp.2"]) == (1, 1, 1)
    last = max(number for number, operation in enumerate(network.graph) if isinstance(operation, Attention))
    assert network.shapes[last + 1] == (8, 1, 1)
    assert_same(net, network)


def test_what_others_read_whole_is_computed_whole() -> None:
    select = {"op": "rearrange", "inputs": (1,), "target": (4, 1, 1), "sizes": (4,), "strides": (64,), "offset": 3}
    graph = make_graph(
        convolution("a", [0], (4, 3), **ONE),
        select,
        {"op": "mean", "inputs": (1,)},
        {"op": "add", "inputs": (2, 3)},
    )
    nodes = tuple(Node(operation) for operation in graph)
    assert compute_needed_pixels(nodes, 8) == nodes
    moved = compute_needed_pixels(nodes[:2], 8)
    assert [node.operation.op for node in moved] == ["rearrange", "conv"]
    assert np.array_equal(moved[0].operation.model_dump()["target"], (3, 1, 1))


class Strip(nn.Module):
    """A layer of one pixel, of which a strip is read by what needs to know where its pixels are."""

    def __init__(self, read: Callable[[Strip, Tensor], Tensor]) -> None:
        super().__init__()
        self.first, self.second = nn.Conv2d(3, 4, 1), nn.Conv2d(4, 4, 3, padding=1)
        self.positions = nn.Parameter(torch.randn(1, 4, 4, 8))
        self.read = read

    def forward(self, x: Tensor) -> Tensor:
        """Return the mean over the strip."""
        return self.read(self, self.first(x).relu()[:, :, :4]).mean((2, 3))


STRIPS: dict[str, Callable[[Strip, Tensor], Tensor]] = {
    "a window": lambda m, x: m.second(x),
    "a pool": lambda m, x: F.max_pool2d(x, 2),
    "numbers by position": lambda m, x: m.second(x + m.positions),
}


@pytest.mark.parametrize("name", STRIPS)
def test_selected_pixels_keep_their_places_in_the_image(name: str) -> None:
    torch.manual_seed(0)
    _, net = tiny_net(Strip(STRIPS[name]))
    network = build_graph(net)
    assert network.shapes[1:3] == [(3, 4, 8), (4, 4, 8)]  # selected before the first layer
    assert_same(net, network)


class Neck(TinyTransformer):
    """A transformer whose patches become an image again, for a convolution."""

    def __init__(self) -> None:
        super().__init__()
        self.neck = nn.Conv2d(8, 8, 3, padding=1)

    def forward(self, x: Tensor) -> Tensor:
        """Return the mean over all patches."""
        x = self.patch(x).flatten(2).transpose(1, 2)
        x = torch.cat([self.token.expand(len(x), -1, -1), x], dim=1) + self.positions
        patches = self.norm(self.blocks(x))[:, 1:].transpose(1, 2).reshape(-1, 8, 4, 4)
        result: Tensor = self.neck(patches).relu().mean((2, 3))
        return result


def test_patches_become_an_image_again() -> None:
    torch.manual_seed(0)
    _, net = tiny_net(Neck())
    assert_same(net, build_graph(net))
