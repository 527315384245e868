"""What a graph builder knows of a traced network."""

from typing import cast

import numpy as np
import torch
from torch import fx

from prunus.graph.operations import Affine, Rearrange
from prunus.lowering.builder import GraphBuilder
from prunus.lowering.trace import trace
from prunus.lowering.views import View
from tests.makers.odd_networks import OddNetwork, Run, mean


def _builder(run: Run) -> tuple[GraphBuilder, dict[str, fx.Node]]:
    network = OddNetwork(run)
    traced = trace(network, 9)
    state = dict(network.state_dict())
    builder = GraphBuilder(traced, [state, state | {"a.bias": state["a.bias"] + 1}])
    builder.start("x")
    return builder, {node.name: node for node in traced.graph.nodes}


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


def test_a_value_is_copied_only_where_its_numbers_are_in_another_order() -> None:
    builder, _ = _builder(lambda m, x: mean(m.a(x)))
    assert builder.ordered("x") == 0
    builder.values["x"] = View(0, torch.arange(243).reshape(1, 3, 9, 9).mT)
    assert builder.ordered("x") == 1
    (node,) = builder.nodes
    assert isinstance(node.operation, Rearrange)
    assert (node.operation.sizes, node.operation.strides) == ((3, 9, 9), (81, 1, 9))


def test_what_is_done_to_every_pixel_keeps_their_order() -> None:
    builder, _ = _builder(lambda m, x: mean(m.a(x)))
    positions = torch.arange(243).reshape(1, 3, 9, 9).permute(0, 3, 2, 1)  # columns, rows, channels
    builder.values["x"] = View(0, positions)
    builder.traced.shapes["x"] = tuple(positions.shape)
    view = builder.along("x", -1, lambda value: builder.activate(value, ("relu", 0.0)))
    assert view.value == 1
    assert view.positions is not None
    assert torch.equal(view.positions, positions)


def test_a_factor_becomes_an_operation_when_it_is_read() -> None:
    builder, _ = _builder(lambda m, x: mean(m.a(x)))
    builder.values["x"] = View(0, torch.arange(243).reshape(1, 3, 9, 9), factor=0.5)
    assert builder.view("x").factor == 1.0
    assert builder.view("x").value == 1
    np.testing.assert_array_equal(builder.nodes[0].tensors["scale"], np.full((2, 3), 0.5))


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
