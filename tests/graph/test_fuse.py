"""Operations are joined where one pass computes them, and only there."""

from typing import Any

import numpy as np

from prunus.graph.fuse import fuse
from prunus.graph.network import Node
from prunus.graph.operations import Graph
from tests.makers.graph_bundles import convolution, make_graph

MEAN = {"op": "mean"}


def _nodes(*operations: dict[str, Any], tensors: dict[int, dict[str, float]] | None = None) -> list[Node]:
    """Make nodes of two domains and four channels, with tensors of one number."""
    graph = make_graph(*operations)
    numbers = tensors or {}
    return [
        Node(operation, {role: np.full((2, 4), value) for role, value in numbers.get(index, {}).items()})
        for index, operation in enumerate(graph)
    ]


def _graph(nodes: tuple[Node, ...]) -> Graph:
    return tuple(node.operation for node in nodes)


def _conv(layer: str, source: int, **fields: Any) -> dict[str, Any]:  # noqa: ANN401  # as in a file
    return convolution(layer, [source], (4, 4 if source else 3), **fields)


def _affine(source: int, activation: str = "none") -> dict[str, Any]:
    return {"op": "affine", "inputs": (source,), "activation": activation}


def test_scales_biases_and_an_activation_go_into_the_convolution() -> None:
    nodes = _nodes(
        _conv("a", 0),
        _affine(1, "relu"),
        MEAN | {"inputs": (2,)},
        tensors={0: {"scale": 2.0, "bias": 1.0}, 1: {"scale": 3.0, "bias": 5.0}},
    )
    conv, mean = fuse(nodes)
    assert _graph((conv, mean)) == make_graph(_conv("a", 0, activation="relu"), MEAN | {"inputs": (1,)})
    assert {role: float(tensor[1, 3]) for role, tensor in conv.tensors.items()} == {"scale": 6.0, "bias": 8.0}


def test_a_scale_and_its_inverse_leave_no_tensor() -> None:
    nodes = _nodes(_conv("a", 0), _affine(1), tensors={0: {"scale": 2.0}, 1: {"scale": 0.5}})
    (conv,) = fuse(nodes)
    assert conv.tensors == {}


def test_of_two_convolutions_the_later_takes_the_sum_in() -> None:
    nodes = _nodes(
        _conv("a", 0),
        _conv("b", 1),
        _conv("c", 1),
        {"op": "add", "inputs": (2, 3), "activation": "relu"},
    )
    expected = make_graph(_conv("a", 0), _conv("b", 1), convolution("c", [1, 2], (4, 4), activation="relu"))
    assert _graph(fuse(nodes)) == expected


def test_a_convolution_with_an_activation_or_a_residual_takes_no_sum_in() -> None:
    for changed in ({"activation": "relu"}, {"inputs": (1, 1)}):
        nodes = _nodes(_conv("a", 0), _conv("b", 1) | changed, {"op": "add", "inputs": (1, 2)})
        assert fuse(nodes) == tuple(nodes)


def test_a_value_that_two_operations_read_is_not_joined_with_one_of_them() -> None:
    nodes = _nodes(_conv("a", 0), _affine(1, "relu"), {"op": "add", "inputs": (1, 2)})
    assert [node.operation.op for node in fuse(nodes)] == ["conv", "affine", "add"]


def test_a_scale_after_a_residual_stays_but_an_activation_does_not() -> None:
    residual = convolution("b", [1, 1], (4, 4))
    scaled = _nodes(_conv("a", 0), residual, _affine(2), tensors={2: {"scale": 3.0}})
    assert _graph(fuse(scaled)) == _graph(tuple(scaled))
    activated = _nodes(_conv("a", 0), residual, _affine(2, "relu"))
    assert _graph(fuse(activated)) == make_graph(_conv("a", 0), residual | {"activation": "relu"})


def test_operations_that_nothing_reads_are_dropped_and_values_renumbered() -> None:
    nodes = _nodes(_conv("a", 0), _conv("unread", 1), _conv("b", 1), MEAN | {"inputs": (3,)})
    assert _graph(fuse(nodes)) == make_graph(_conv("a", 0), _conv("b", 1), MEAN | {"inputs": (2,)})
