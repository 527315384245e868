"""ONNX models of a bundle, in memory: one per domain, or one for all domains with the domain's number as an input."""

from collections.abc import Sequence
from typing import Any

from prunus.bundle.bundle import Bundle
from prunus.bundle.packing import from_bundle
from prunus.graph.cut import cut_with_channels
from prunus.onnx.kernels import KernelRows, worth_packing, write_kernels, write_masks
from prunus.onnx.labels import as_metadata
from prunus.onnx.nodes import OnnxGraph, write_graph
from prunus.onnx.tensors import DomainTensors, SelectedTensors
from prunus.version import __version__

OPSET = 20
IR_VERSION = 9  # the first with opset 20, for older runtimes


def domain_model(onnx: Any, bundle: Bundle, domain: str) -> Any:  # noqa: ANN401  # onnx is untyped
    """Return the model of one domain, with only the channels that it needs."""
    graph = OnnxGraph()
    network, channels = cut_with_channels(from_bundle(bundle, [domain]))
    rows = KernelRows(bundle, worth_packing(bundle, is_single=False))
    kernels = write_kernels(graph, rows, rows.of_domain(network, channels))
    write_graph(graph, network.graph, network.shapes, DomainTensors(graph, network, kernels))
    return _to_onnx(onnx, graph, bundle, [domain], {})


def common_model(onnx: Any, bundle: Bundle) -> Any:  # noqa: ANN401  # onnx is untyped
    """Return the model of all domains; logits are padded to the largest number of classes."""
    graph = OnnxGraph()
    rows = KernelRows(bundle, worth_packing(bundle, is_single=True))
    tensors = SelectedTensors(graph, bundle, write_kernels(graph, rows, rows.numbers), write_masks(graph, bundle))
    write_graph(graph, bundle.manifest.graph, bundle.manifest.shapes, tensors)
    return _to_onnx(onnx, graph, bundle, bundle.domains, {"domain": onnx.TensorProto.INT64})


def _to_onnx(
    onnx: Any,  # noqa: ANN401  # onnx is untyped
    graph: OnnxGraph,
    bundle: Bundle,
    domains: Sequence[str],
    extra_inputs: dict[str, int],
) -> Any:  # noqa: ANN401
    """Convert plain data to an ONNX model."""
    helper, kinds = onnx.helper, onnx.TensorProto
    size = bundle.manifest.image_size
    inputs = [helper.make_tensor_value_info("images", kinds.FLOAT, ["batch", 3, size, size])]
    inputs += [helper.make_tensor_value_info(name, kind, []) for name, kind in extra_inputs.items()]
    onnx_graph = helper.make_graph(
        [
            helper.make_node(node.op, node.inputs, [node.output, *node.more_outputs], node.output, **node.attributes)
            for node in graph.nodes
        ],
        bundle.manifest.backbone,
        inputs,
        [helper.make_tensor_value_info("logits", kinds.FLOAT, ["batch", None])],
        [onnx.numpy_helper.from_array(array, name) for name, array in graph.tensors.items()],
    )
    model = helper.make_model(
        onnx_graph, producer_name="prunus", producer_version=__version__, opset_imports=[helper.make_opsetid("", OPSET)]
    )
    model.ir_version = IR_VERSION
    helper.set_model_props(model, as_metadata(bundle, domains))
    return model
