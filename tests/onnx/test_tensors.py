"""Tensors of one domain are stored as they are; those of several domains are selected only if they differ."""

import numpy as np

from prunus.bundle.bundle import Bundle
from prunus.bundle.packing import from_bundle
from prunus.onnx.graph import OnnxGraph
from prunus.onnx.tensors import DomainTensors, SelectedTensors
from tests.makers.graph_bundles import convolution, make_graph, random_bundle


def _bundle(density: float = 0.5) -> Bundle:
    """One layer with a scale per domain and a shared bias, and no `ones`."""
    graph = make_graph(convolution("c", [0], (4, 3)), {"op": "mean", "inputs": (1,)})
    bundle = random_bundle(graph, 8, density=density)
    arrays = {name: array for name, array in bundle.arrays.items() if not name.startswith(("norm/", "shared/"))}
    scales = {f"norm/{name}/0.scale": np.full(4, 1 + k, np.float32) for k, name in enumerate(bundle.domains)}
    return Bundle(bundle.manifest, arrays | scales | {"shared/0.bias": np.arange(4, dtype=np.float32)})


def test_a_domain_stores_its_tensors() -> None:
    bundle, onnx = _bundle(), OnnxGraph()
    tensors = DomainTensors(onnx, from_bundle(bundle, ["b"]), {"c": "kernels"})
    assert tensors.get(0, "ones") is None
    assert tensors.get(0, "scale", (-1, 1, 1, 1)) == "0.c.scale"
    assert tensors.get(0, "weight") == "kernels"
    assert tensors.head("bias") == "head.bias"
    assert onnx.tensors["0.c.scale"].shape == (4, 1, 1, 1)
    assert onnx.tensors["0.c.scale"].dtype == np.float32
    assert np.array_equal(onnx.tensors["head.bias"], bundle.head("b")[1])
    assert onnx.nodes == []


def test_tensors_that_differ_between_domains_are_selected_and_others_are_not() -> None:
    onnx = OnnxGraph()
    tensors = SelectedTensors(onnx, _bundle(), {}, {})
    assert tensors.get(0, "ones") is None
    assert tensors.get(0, "bias") == "0.c.bias"
    assert onnx.nodes == []
    selected = tensors.get(0, "scale", (-1, 1, 1, 1))
    (gather,) = onnx.nodes
    assert (gather.op, gather.inputs, gather.output) == ("Gather", ("0.c.scale", "domain"), selected)
    assert onnx.tensors["0.c.scale"].shape == (2, 4, 1, 1, 1)
    assert tensors.get(0, "scale", (-1, 1, 1, 1)) == selected  # added once
    assert len(onnx.nodes) == 1


def test_the_kernels_of_the_union_are_masked_once() -> None:
    onnx = OnnxGraph()
    tensors = SelectedTensors(onnx, _bundle(), {"c": "rows"}, {"c": "c.mask"})
    weight = tensors.get(0, "weight")
    assert tensors.get(0, "weight") == weight
    gather, where = onnx.nodes
    assert (gather.inputs, where.op, where.output) == (("c.mask", "domain"), "Where", weight)
    assert where.inputs == (gather.output, "rows", "zero.float32")
    whole = OnnxGraph()
    assert SelectedTensors(whole, _bundle(density=1.0), {"c": "rows"}, {}).get(0, "weight") == "rows"
    assert whole.nodes == []
    assert whole.tensors == {}


def test_heads_are_padded_with_impossible_classes() -> None:
    bundle, onnx = _bundle(), OnnxGraph()
    entries = bundle.manifest.domains
    fewer = entries["a"].model_copy(update={"classes": ("x",)})
    manifest = bundle.manifest.model_copy(update={"domains": entries | {"a": fewer}})
    heads = {f"head/a/{role}": bundle.arrays[f"head/a/{role}"][:1] for role in ("weight", "bias")}
    tensors = SelectedTensors(onnx, Bundle(manifest, bundle.arrays | heads), {}, {})
    tensors.head("weight")
    tensors.head("bias")
    assert onnx.tensors["head.weight"].shape == (2, 3, 4)
    assert not onnx.tensors["head.weight"][0, 1:].any()
    assert onnx.tensors["head.bias"][0, 1:].tolist() == [-1e9, -1e9]
    assert np.array_equal(onnx.tensors["head.bias"][1], bundle.head("b")[1])
