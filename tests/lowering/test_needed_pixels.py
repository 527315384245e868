"""Only the pixels that are read are computed, and the logits stay the same."""

import numpy as np
import torch

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
