"""Weights of 8-bit files become unsigned codes with a positive scale per output channel."""

import numpy as np
import pytest

from prunus.bundle.bundle import Bundle
from prunus.onnx.coded_network import common_network, domain_network
from prunus.onnx.coded_tensors import CodedTensors
from prunus.onnx.graph import OnnxGraph
from prunus.onnx.tensors import DomainTensors, SelectedTensors
from tests.makers.coded_bundles import random_coded_bundle
from tests.makers.graph_bundles import convolution, make_graph

GRAPH = make_graph(
    convolution("a", [0], (4, 3), activation="relu"),
    convolution("b", [1], (4, 4)),
    {"op": "mean", "inputs": (2,)},
)


def _bundle(gains: tuple[float, float] = (1.0, 1.0)) -> Bundle:
    bundle = random_coded_bundle(GRAPH, 6, density=1.0)
    others = {name: array for name, array in bundle.arrays.items() if not name.startswith(("norm/", "shared/"))}
    zeros = {f"coding/{name}/zero": np.array([9, 0, 255, 7], np.uint8) for name in bundle.domains}
    scales = {f"norm/{name}/0.scale": np.full(4, gain, np.float32) for name, gain in zip("ab", gains, strict=True)}
    return Bundle(bundle.manifest, others | zeros | scales | {"shared/0.bias": np.ones(4, np.float32)})


def _of_domain(bundle: Bundle) -> tuple[OnnxGraph, CodedTensors]:
    onnx, (coded, _) = OnnxGraph(), domain_network(bundle, "a")
    kernels = {"a": "a.codes", "b": "b.codes"}
    return onnx, CodedTensors(onnx, DomainTensors(onnx, coded.network, kernels), coded, kernels)


def _of_all(bundle: Bundle) -> tuple[OnnxGraph, CodedTensors]:
    onnx, kernels = OnnxGraph(), {"a": "a.codes", "b": "b.codes"}
    source = SelectedTensors(onnx, bundle, kernels, {"a": "a.mask"})
    return onnx, CodedTensors(onnx, source, common_network(bundle), kernels)


def test_a_weight_is_decoded_with_the_norm_in_its_scale() -> None:
    bundle = _bundle((2.0, 1.0))
    onnx, tensors = _of_domain(bundle)
    weight = tensors.get(0, "weight")
    (node,) = onnx.nodes
    assert (node.op, node.inputs, node.output) == ("DequantizeLinear", ("a.codes", "0.a.scale", "zeros_4"), weight)
    assert node.attributes == {"axis": 0}
    np.testing.assert_array_equal(onnx.tensors["0.a.scale"], 2 * bundle.arrays["scale/a"].astype(np.float32))
    assert onnx.tensors["zeros_4"].tolist() == [128] * 4
    assert tensors.get(0, "scale", (-1, 1, 1, 1)) is None
    assert tensors.get(1, "bias") is None


def test_a_bias_counts_steps_of_weight_and_input() -> None:
    bundle = _bundle()
    onnx, tensors = _of_domain(bundle)
    bias = tensors.get(0, "bias")
    multiply, decode = onnx.nodes
    assert (multiply.op, multiply.inputs) == ("Mul", ("0.a.scale", "coding.0.scale"))
    assert (decode.inputs, decode.output) == (("0.a.bias", multiply.output), bias)
    assert onnx.tensors["0.a.bias"].dtype == np.int32
    units = bundle.arrays["scale/a"].astype(np.float64) * bundle.arrays["coding/a/scale"].astype(np.float64)[0]
    assert (np.abs(onnx.tensors["0.a.bias"].astype(np.float64) * units - 1) <= 0.51 * units).all()


def test_codes_change_their_sign_where_the_norm_is_negative() -> None:
    onnx, tensors = _of_domain(_bundle((-2.0, 1.0)))
    tensors.get(0, "weight")
    assert [node.op for node in onnx.nodes] == ["Cast", "Sub", "Mul", "Round", "Add", "Cast", "DequantizeLinear"]
    assert onnx.tensors["0.a.factor"].reshape(-1).tolist() == [-1] * 4
    assert (onnx.tensors["0.a.scale"].astype(np.float32) > 0).all()


def test_all_domains_share_codes_that_are_masked_with_the_code_of_zero() -> None:
    onnx, tensors = _of_all(_bundle((1.0, 3.0)))
    tensors.get(0, "weight")
    assert [node.op for node in onnx.nodes] == ["Gather", "Where", "Gather", "DequantizeLinear"]
    assert onnx.nodes[1].inputs == (onnx.nodes[0].output, "a.codes", "zero.uint8")
    assert onnx.tensors["zero.uint8"] == 128
    assert onnx.nodes[2].inputs == ("0.a.scale", "domain")


def test_a_layer_of_codes_that_computes_with_floats_reads_numbers() -> None:
    bundle = _bundle()
    manifest = bundle.manifest.with_graph(GRAPH, (1, 2))
    codings = {name: array[1:] for name, array in bundle.arrays.items() if name.startswith("coding/")}
    onnx, tensors = _of_domain(Bundle(manifest, bundle.arrays | codings))
    tensors.get(0, "weight")
    assert [node.op for node in onnx.nodes] == ["Cast", "Sub", "Mul"]
    np.testing.assert_array_equal(onnx.tensors["scale.a"].reshape(-1), bundle.arrays["scale/a"])
    assert tensors.get(0, "scale", (-1, 1, 1, 1)) is None  # the norm of domain a changes nothing
    assert tensors.get(0, "bias") == "0.a.bias"
    assert onnx.tensors["0.a.bias"].dtype == np.float32


def test_limits_are_there_where_codes_are_limited() -> None:
    bundle = _bundle()
    onnx, tensors = _of_domain(bundle)
    assert [tensors.limits(number, operation) for number, operation in enumerate(GRAPH)] == [None, None, None]
    arrays = bundle.arrays | {"coding/a/zero": np.array([9, 3, 255, 7], np.uint8)}
    onnx, tensors = _of_domain(Bundle(bundle.manifest, arrays))
    low, high = tensors.limits(0, GRAPH[0]) or ("", "")
    names = (low, high, tensors.coding(2)[1])
    assert [onnx.tensors[name].item() for name in names] == [3, 255, 255]


@pytest.mark.parametrize("is_coded", [True, False])
def test_the_classifier_reads_codes_or_numbers(is_coded: bool) -> None:
    bundle = _bundle()
    if not is_coded:
        codings = {name: array[:3] for name, array in bundle.arrays.items() if name.startswith("coding/")}
        bundle = Bundle(bundle.manifest.with_graph(GRAPH, (0, 1)), bundle.arrays | codings)
    onnx, tensors = _of_domain(bundle)
    tensors.head("weight")
    tensors.head("bias")
    ops = ["DequantizeLinear", "Mul", "DequantizeLinear"] if is_coded else ["Cast", "Sub", "Mul"]
    assert [node.op for node in onnx.nodes] == ops
    codes = onnx.tensors["head.codes"].astype(int) - 128
    np.testing.assert_array_equal(codes, bundle.arrays["head/a/weight"])
    assert onnx.tensors["head.bias"].dtype == (np.int32 if is_coded else np.float32)
