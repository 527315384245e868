"""Graphs as plain data."""

import numpy as np

from prunus.onnx.graph import OnnxGraph


def test_equal_constants_are_one_tensor() -> None:
    onnx = OnnxGraph()
    assert onnx.integers(1, 2) == onnx.integers(1, 2) == "integers_1_2"
    assert onnx.number(0.0) == onnx.number(0.0)
    assert len(onnx.tensors) == 2


def test_a_number_has_the_type_of_the_graph_unless_told() -> None:
    onnx = OnnxGraph(np.float16)
    onnx.number(1.5)
    onnx.number(3, np.int32)
    assert {name: array.dtype.name for name, array in onnx.tensors.items()} == {
        "float16_1.5": "float16",
        "int32_3": "int32",
    }


def test_the_last_operator_can_be_given_a_name() -> None:
    onnx = OnnxGraph()
    onnx.node("Relu", "x")
    onnx.node("Relu", onnx.nodes[0].output)
    assert onnx.rename_last("y") == "y"
    assert [node.output for node in onnx.nodes] == ["Relu_0", "y"]
    assert onnx.nodes[1].inputs == ("Relu_0",)
