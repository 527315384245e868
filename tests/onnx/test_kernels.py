"""Rows and bits become the dense weights again."""

from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest

from prunus.arrays import Array
from prunus.bundle.packing import from_bundle
from prunus.graph.cut import cut_with_channels
from prunus.onnx.graph import OnnxGraph
from prunus.onnx.kernels import (
    KernelRows,
    domain_weights,
    stored_weight,
    unpack,
    worth_packing,
    write_dense,
    write_kernels,
    write_masks,
)
from tests.makers.coded_bundles import integer_graph, random_coded_bundle
from tests.makers.graph_bundles import random_bundle, varied_graph


def _values(graph: OnnxGraph, names: list[str]) -> list[Array]:
    helper: Any = onnx.helper
    nodes = [
        helper.make_node(node.op, node.inputs, [node.output, *node.more_outputs], **node.attributes)
        for node in graph.nodes
    ]
    outputs = [onnx.ValueInfoProto(name=name) for name in names]
    tensors = [onnx.numpy_helper.from_array(array, name) for name, array in graph.tensors.items()]
    model = helper.make_model(
        helper.make_graph(nodes, "g", [], outputs, tensors), opset_imports=[helper.make_opsetid("", 20)]
    )
    model.ir_version = 9
    inferred = onnx.shape_inference.infer_shapes(model, data_prop=True)
    known = {value.name: value for value in inferred.graph.value_info}
    del model.graph.output[:]
    model.graph.output.extend([known[name] for name in names])
    values: list[Array] = onnxruntime.InferenceSession(model.SerializeToString()).run(None, {})
    return values


@pytest.mark.parametrize("sizes", [(3,), (8, 8), (1, 20, 5), (11, 0, 2)])
def test_bits_are_unpacked_to_the_vectors_that_were_packed(sizes: tuple[int, ...]) -> None:
    rng = np.random.default_rng(0)
    bits = [rng.random(size) < 0.5 for size in sizes]
    graph = OnnxGraph()
    for found, expected in zip(_values(graph, unpack(graph, "bits", bits)), bits, strict=True):
        np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("seed", range(3))
def test_rows_become_the_weights_of_a_domains_cut_network(seed: int) -> None:
    bundle = random_bundle(varied_graph(seed), 12, density=0.3, seed=seed)
    rows = KernelRows(bundle, list(bundle.manifest.convs))
    for domain in bundle.domains:
        network, channels = cut_with_channels(from_bundle(bundle, [domain]))
        graph = OnnxGraph()
        names = write_kernels(graph, rows, rows.of_domain(network, channels))
        for layer, found in zip(names, _values(graph, list(names.values())), strict=True):
            expected = network.weights[layer] * network.masks[layer][0][:, :, None, None]
            np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("seed", range(3))
def test_codes_and_wide_kernels_become_the_weights_of_a_domain(seed: int) -> None:
    bundle = random_coded_bundle(integer_graph(seed), 12, share=0.6, density=0.3, seed=seed)
    assert bundle.manifest.wide
    rows = KernelRows(bundle, list(bundle.manifest.convs))
    network, channels = cut_with_channels(from_bundle(bundle, ["b"]))
    graph = OnnxGraph()
    names = write_kernels(graph, rows, rows.of_domain(network, channels))
    dense = domain_weights(bundle, network, channels, list(names))
    for layer, found in zip(names, _values(graph, list(names.values())), strict=True):
        is_wide = layer in bundle.manifest.wide
        assert found.dtype == (np.float32 if is_wide else np.uint8)
        weight = found.astype(np.float32)
        if not is_wide:
            scale = bundle.arrays[f"scale/{layer}"].astype(np.float32)[channels[layer][0]]
            weight = (weight - 128) * scale[:, None, None, None]
        np.testing.assert_array_equal(weight, network.weights[layer] * network.masks[layer][0][:, :, None, None])
        np.testing.assert_array_equal(found, dense[layer])


def test_dense_weights_keep_their_bytes() -> None:
    bundle = random_coded_bundle(integer_graph(1), 12, share=0.6, density=1.0, seed=1)
    graph = OnnxGraph()
    weights = {layer: stored_weight(bundle, layer, bundle.union(layer)) for layer in bundle.manifest.convs}
    names = write_dense(graph, weights)
    assert {array.dtype.name for array in graph.tensors.values()} == {"uint8", "float16"}
    assert [node.op for node in graph.nodes] == ["Cast"] * len(bundle.manifest.wide)
    assert {layer for layer, name in names.items() if name.startswith("Cast")} == set(bundle.manifest.wide)


def test_layers_that_all_domains_use_whole_are_not_packed() -> None:
    graph = varied_graph(0)
    assert worth_packing(random_bundle(graph, 12, density=1.0), is_single=False) == []
    sparse = random_bundle(graph, 12, density=0.2)
    assert worth_packing(sparse, is_single=False) == list(sparse.manifest.convs)


def test_masks_are_those_of_every_domain() -> None:
    bundle = random_bundle(varied_graph(1), 12, density=0.4)
    graph = OnnxGraph()
    names = write_masks(graph, bundle)
    assert len(names) > 3
    for layer, found in zip(names, _values(graph, list(names.values())), strict=True):
        np.testing.assert_array_equal(found[..., 0, 0], [bundle.mask(domain, layer) for domain in bundle.domains])
    assert write_masks(OnnxGraph(), random_bundle(varied_graph(1), 12, density=1.0)) == {}
