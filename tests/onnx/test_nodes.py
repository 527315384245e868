"""Operations become the ONNX nodes that compute them."""

from typing import Any, get_args

import pytest

from prunus.graph.operations import OPERATIONS, ActivationName
from prunus.graph.shapes import value_shapes
from prunus.onnx.graph import OnnxGraph, OnnxNode
from prunus.onnx.nodes import ACTIVATIONS, NODES, write_graph
from prunus.onnx.values import FloatValues
from tests.makers.graph_bundles import convolution, make_graph


class _Named:
    """A source of tensors that only names them: those of some roles."""

    def __init__(self, *roles: str) -> None:
        self.roles = ("weight", *roles)
        self.shapes: dict[str, tuple[int, ...] | None] = {}

    def get(self, number: int, role: str, shape: tuple[int, ...] | None = None) -> str | None:
        """Name a tensor of a known role."""
        self.shapes[f"{number}.{role}"] = shape
        return f"{number}.{role}" if role in self.roles else None

    def head(self, role: str) -> str:
        """Name the classifier's tensors."""
        return f"head.{role}"


def _write(operation: dict[str, Any], *roles: str, size: int = 6) -> tuple[OnnxGraph, _Named]:
    graph = make_graph(operation)
    onnx, tensors = OnnxGraph(), _Named(*roles)
    write_graph(onnx, graph, value_shapes(graph, size), tensors, FloatValues(onnx))
    return onnx, tensors


def _ops(onnx: OnnxGraph) -> list[str]:
    return [node.op for node in onnx.nodes]


POOL = {"op": "pool", "inputs": (0,), "kind": "mean", "kernel": (3, 3), "stride": (2, 2)}


def test_every_operation_and_every_activation_has_a_row() -> None:
    assert NODES.keys() == OPERATIONS.keys()
    assert set(ACTIVATIONS) == set(get_args(ActivationName))


def test_a_graph_ends_in_the_classifier() -> None:
    onnx, _ = _write({"op": "mean", "inputs": (0,)})
    mean, flatten, gemm = onnx.nodes
    assert mean == OnnxNode("GlobalAveragePool", ("images",), "GlobalAveragePool_0", {})
    assert flatten == OnnxNode("Flatten", (mean.output,), "Flatten_1", {"axis": 1})
    assert gemm == OnnxNode("Gemm", (flatten.output, "head.weight", "head.bias"), "logits", {"transB": 1})


def test_a_convolution_has_one_node_and_scales_its_weights_by_another() -> None:
    plain, _ = _write(convolution("c", [0], (4, 3), pads=(1, 2, 3, 4), stride=(2, 1), dilation=(1, 2)))
    assert plain.nodes[0].inputs == ("images", "0.weight")
    assert plain.nodes[0].attributes == {
        "group": 1,
        "kernel_shape": (3, 3),
        "strides": (2, 1),
        "pads": (1, 2, 3, 4),
        "dilations": (1, 2),
    }
    scaled, tensors = _write(convolution("c", [0], (4, 3), activation="relu"), "scale", "bias")
    assert _ops(scaled)[:3] == ["Mul", "Conv", "Relu"]
    assert scaled.nodes[0].inputs == ("0.weight", "0.scale")
    assert scaled.nodes[1].inputs == ("images", scaled.nodes[0].output, "0.bias")
    assert tensors.shapes["0.scale"] == (-1, 1, 1, 1)


def test_ones_are_convolved_over_a_plane_of_ones_and_a_residual_is_added() -> None:
    onnx, tensors = _write(convolution("c", [0, 0], (3, 3)), "ones")
    assert _ops(onnx) == ["Conv", "Expand", "Conv", "Add", "Add", "Flatten", "Gemm"]
    assert tensors.shapes["0.ones"] == (3, 1, 3, 3)
    assert onnx.tensors["integers_1_1_6_6"].tolist() == [1, 1, 6, 6]
    assert onnx.nodes[4].inputs == (onnx.nodes[3].output, "images")


def test_a_pool_pads_to_its_last_window() -> None:
    onnx, _ = _write(POOL | {"kind": "max", "pads": (1, 1, 1, 1)})
    assert onnx.nodes[0].attributes == {"kernel_shape": (3, 3), "strides": (2, 2), "pads": (1, 1, 0, 0)}
    onnx, _ = _write(POOL | {"kind": "max", "stride": (4, 4), "ceil": True})
    assert onnx.nodes[0].attributes["pads"] == (0, 0, 1, 1)


def test_a_mean_that_counts_padding_is_corrected_where_windows_end_after_it() -> None:
    within, _ = _write(POOL | {"pads": (1, 1, 1, 1), "count_pads": True})
    assert _ops(within) == ["AveragePool", "Flatten", "Gemm"]
    assert within.nodes[0].attributes["count_include_pad"] == 1
    uncounted, _ = _write(POOL | {"stride": (4, 4), "ceil": True})
    assert _ops(uncounted) == ["AveragePool", "Flatten", "Gemm"]
    assert uncounted.nodes[0].attributes["count_include_pad"] == 0
    beyond, _ = _write(POOL | {"stride": (4, 4), "ceil": True, "count_pads": True})
    assert _ops(beyond) == ["AveragePool", "Mul", "Flatten", "Gemm"]
    assert beyond.tensors["0.share"].tolist() == [[1, 3 / 2], [3 / 2, 9 / 4]]


def test_a_layer_norm_without_scale_is_given_ones() -> None:
    onnx, _ = _write({"op": "layer_norm", "inputs": (0,), "eps": 1e-6})
    assert _ops(onnx)[:3] == ["Transpose", "LayerNormalization", "Transpose"]
    assert onnx.tensors["0.ones"].tolist() == [1, 1, 1]
    assert onnx.nodes[1].attributes == {"axis": -1, "epsilon": 1e-6}


@pytest.mark.parametrize(("name", "ops"), [("silu", ["Sigmoid", "Mul"]), ("relu6", ["Clip"]), ("none", [])])
def test_activations_without_an_operator_are_composed(name: ActivationName, ops: list[str]) -> None:
    onnx = OnnxGraph()
    ACTIVATIONS[name](onnx, "x", 0.0)
    assert _ops(onnx) == ops
