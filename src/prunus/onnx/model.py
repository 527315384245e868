"""ONNX models of a bundle, in memory: one domain's, or one for all domains with the domain's number as an input."""

from __future__ import annotations

from typing import Any

from prunus.bundle.bundle import Bundle
from prunus.onnx.network import domain_network
from prunus.onnx.nodes import OnnxGraph, write_graph
from prunus.onnx.numbers import ChosenNumbers, OwnNumbers
from prunus.onnx.slim import slim
from prunus.version import __version__

OPSET = 20
IR_VERSION = 9  # that of opset 20, which older runtimes read too


def domain_model(onnx: Any, bundle: Bundle, domain: str) -> Any:  # noqa: ANN401  # onnx is untyped
    """Make the model of one domain, with only the channels it needs."""
    graph, network = OnnxGraph(), slim(domain_network(bundle, domain))
    write_graph(graph, network.graph, network.shapes, OwnNumbers(graph, network))
    return _to_onnx(onnx, graph, bundle, {})


def common_model(onnx: Any, bundle: Bundle) -> Any:  # noqa: ANN401  # onnx is untyped
    """Make the model of all domains; logits are padded to the largest number of classes."""
    graph = OnnxGraph()
    write_graph(graph, bundle.manifest.graph, bundle.manifest.shapes, ChosenNumbers(graph, bundle))
    return _to_onnx(onnx, graph, bundle, {"domain": onnx.TensorProto.INT64})


def _to_onnx(onnx: Any, graph: OnnxGraph, bundle: Bundle, more: dict[str, int]) -> Any:  # noqa: ANN401  # onnx is untyped
    """Make ONNX's own model of plain data."""
    helper, size, kinds = onnx.helper, bundle.manifest.image_size, onnx.TensorProto
    inputs = [helper.make_tensor_value_info("images", kinds.FLOAT, ["batch", 3, size, size])]
    inputs += [helper.make_tensor_value_info(name, kind, []) for name, kind in more.items()]
    made = helper.make_graph(
        [helper.make_node(each.op, each.inputs, [each.output], each.output, **each.attributes) for each in graph.nodes],
        bundle.manifest.backbone,
        inputs,
        [helper.make_tensor_value_info("logits", kinds.FLOAT, ["batch", None])],
        [onnx.numpy_helper.from_array(array, name) for name, array in graph.tensors.items()],
    )
    model = helper.make_model(
        made, producer_name="prunus", producer_version=__version__, opset_imports=[helper.make_opsetid("", OPSET)]
    )
    model.ir_version = IR_VERSION
    return model
