"""What a graph builder knows of a traced network."""

from typing import cast

import numpy as np
import torch
from torch import fx

from prunus.graph.operations import Affine
from prunus.lowering.builder import GraphBuilder
from prunus.lowering.trace import trace
from tests.makers.odd_networks import OddNetwork, Run, mean


def _builder(run: Run) -> tuple[GraphBuilder, dict[str, fx.Node]]:
    network = OddNetwork(run)
    traced = trace(network, 9)
    state = dict(network.state_dict())
    builder = GraphBuilder(traced, [state, state | {"a.bias": state["a.bias"] + 1}])
    builder.values["x"] = 0
    return builder, {node.name: node for node in traced.module.graph.nodes}


def test_tensors_have_a_row_per_domain() -> None:
    builder, _ = _builder(lambda m, x: mean(m.a(x)))
    bias = builder.tensors("a.bias")
    assert bias is not None
    np.testing.assert_allclose(bias[1] - bias[0], 1, rtol=1e-6)
    assert builder.tensors("a.nothing") is None


def test_settings_are_a_layers_own_or_a_calls_arguments() -> None:
    builder, nodes = _builder(lambda m, x: torch.flatten(m.a(x), 1, end_dim=3))
    assert builder.settings(nodes["a"], ("kernel_size", "colour")) == {"kernel_size": (3, 3)}
    assert builder.settings(nodes["flatten"], ("start_dim", "end_dim")) == {"start_dim": 1, "end_dim": 3}


def test_constants_are_numbers_per_channel_or_nothing() -> None:
    builder, _ = _builder(lambda m, x: mean(m.a(x)))
    rows = builder.by_channel([2, torch.arange(4.0).reshape(1, 4, 1, 1)], 4)
    assert rows is not None
    assert rows.tolist() == [[2.0] * 4, [0.0, 1.0, 2.0, 3.0]]
    assert builder.by_channel([torch.zeros(1, 4, 2, 2)], 4) is None
    assert builder.by_channel(["text"], 4) is None


def test_sizes_are_known_but_for_the_number_of_images() -> None:
    builder, nodes = _builder(lambda m, x: mean(m.a(x)) * x.size(2) * x.size(0))
    assert builder.evaluate(nodes["size"]) == [9, 9]
    assert builder.evaluate(nodes["size_1"]) == [None, None]


def test_a_parameter_that_is_read_directly_is_the_domains_own_or_the_networks() -> None:
    builder, nodes = _builder(lambda m, x: mean(m.a(x)) * cast(torch.Tensor, m.a.bias).sum())
    (read,) = (node for node in nodes.values() if node.op == "get_attr")
    first, second = builder.evaluate(read)
    torch.testing.assert_close(second, first + 1)
    cast(dict[str, torch.Tensor], builder.domains[0]).pop("a.bias")
    torch.testing.assert_close(builder.evaluate(read)[0], first)


def test_what_changes_nothing_is_not_added() -> None:
    builder, _ = _builder(lambda m, x: mean(m.a(x)))
    assert builder.activate(0, ("none", 0.0), {"scale": np.ones((2, 3)), "bias": np.zeros((2, 3))}) == 0
    assert builder.activate(0, ("relu", 0.0), {"scale": np.full((2, 3), 2.0), "bias": np.zeros((2, 3))}) == 1
    assert builder.nodes[0].operation == Affine(op="affine", inputs=(0,), activation="relu")
    assert list(builder.nodes[0].tensors) == ["scale"]
