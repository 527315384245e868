"""ONNX models of a bundle, in memory: one per domain, or one for all domains with the domain's number as an input."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from prunus.bundle.bundle import Bundle
from prunus.bundle.packing import from_bundle
from prunus.graph.cut import cut_with_channels
from prunus.onnx.coded_network import CodedNetwork, common_network, domain_network
from prunus.onnx.coded_tensors import CodedTensors
from prunus.onnx.graph import OnnxGraph
from prunus.onnx.kernels import (
    KernelRows,
    domain_weights,
    stored_weight,
    worth_packing,
    write_dense,
    write_kernels,
    write_masks,
)
from prunus.onnx.labels import as_metadata
from prunus.onnx.nodes import write_graph
from prunus.onnx.tensors import DomainTensors, SelectedTensors
from prunus.onnx.values import CodedValues, FloatValues
from prunus.version import __version__

OPSET = 20
IR_VERSION = 9  # the first with opset 20, for older runtimes


def domain_model(onnx: Any, bundle: Bundle, domain: str) -> Any:  # noqa: ANN401  # onnx is untyped
    """Return the model of one domain, with only the channels that it needs."""
    graph = OnnxGraph(np.float16 if bundle.dtype == "float16" else np.float32)
    coded = None
    if bundle.dtype == "int8":
        coded, channels = domain_network(bundle, domain)
        network = coded.network
    else:
        network, channels = cut_with_channels(from_bundle(bundle, [domain]))
    rows = KernelRows(bundle, worth_packing(bundle, is_single=False))
    kernels = write_kernels(graph, rows, rows.of_domain(network, channels))
    others = [layer for layer in bundle.manifest.convs if layer not in kernels]
    kernels |= write_dense(graph, domain_weights(bundle, network, channels, others))
    tensors = DomainTensors(graph, network, kernels)
    if coded is None:
        write_graph(graph, network.graph, network.shapes, tensors, FloatValues(graph))
    else:
        _write_coded(graph, coded, CodedTensors(graph, tensors, coded, kernels))
    return _to_onnx(onnx, graph, bundle, [domain], {})


def common_model(onnx: Any, bundle: Bundle) -> Any:  # noqa: ANN401  # onnx is untyped
    """Return the model of all domains; logits are padded to the largest number of classes."""
    graph = OnnxGraph(np.float16 if bundle.dtype == "float16" else np.float32)
    rows = KernelRows(bundle, worth_packing(bundle, is_single=True))
    kernels = write_kernels(graph, rows, rows.numbers)
    others = [layer for layer in bundle.manifest.convs if layer not in kernels]
    kernels |= write_dense(graph, {layer: stored_weight(bundle, layer, bundle.union(layer)) for layer in others})
    tensors = SelectedTensors(graph, bundle, kernels, write_masks(graph, bundle))
    if bundle.dtype == "int8":
        coded = common_network(bundle)
        _write_coded(graph, coded, CodedTensors(graph, tensors, coded, kernels))
    else:
        write_graph(graph, bundle.manifest.graph, bundle.manifest.shapes, tensors, FloatValues(graph))
    return _to_onnx(onnx, graph, bundle, bundle.domains, {"domain": onnx.TensorProto.INT64})


def _write_coded(graph: OnnxGraph, coded: CodedNetwork, tensors: CodedTensors) -> None:
    values = CodedValues(graph, coded.integers, tensors)
    write_graph(graph, coded.network.graph, coded.network.shapes, tensors, values)


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
