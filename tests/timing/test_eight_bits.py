"""ONNX Runtime quantizes a model: unsigned activations, signed weights with a scale per channel."""

import logging

import numpy as np
import onnx
import pytest

from prunus.errors import BundleError
from prunus.onnx.model import domain_model
from prunus.runtime.numpy_engine import NumpyEngine
from prunus.timing.eight_bits import needs_seven_bits, quantize
from prunus.timing.rivals import random_images
from prunus.timing.sessions import onnx_run
from tests.makers.graph_bundles import convolution, make_graph, random_bundle

BUNDLE = random_bundle(make_graph(convolution("c", [0], (8, 3), activation="relu")), 8, ("a",), density=1.0)


def test_weights_are_signed_bytes_with_a_scale_per_channel_and_activations_unsigned() -> None:
    images = random_images(6, 8)
    content = quantize(domain_model(onnx, BUNDLE, "a").SerializeToString(), images)
    model = onnx.load_from_string(content)
    tensors = {tensor.name: onnx.numpy_helper.to_array(tensor) for tensor in model.graph.initializer}
    conv = next(node for node in model.graph.node if node.op_type == "Conv")
    made_by = {output: node for node in model.graph.node for output in node.output}
    activation, weight = (made_by[name] for name in conv.input[:2])
    assert (activation.op_type, weight.op_type) == ("DequantizeLinear", "DequantizeLinear")
    assert tensors[weight.input[0]].dtype == np.int8
    assert tensors[weight.input[1]].shape == (8,)
    assert tensors[activation.input[2]].dtype == np.uint8
    lowest, highest = images.min(), images.max()
    assert tensors[activation.input[1]] == pytest.approx(
        (highest - lowest) / 255, rel=1e-5
    )  # the range of these images
    expected = NumpyEngine(BUNDLE).logits(images, "a")
    np.testing.assert_allclose(onnx_run(content, 1)(images), expected, atol=0.1 * float(np.abs(expected).max()))


def test_what_cannot_be_quantized_is_an_error_in_one_line(caplog: pytest.LogCaptureFixture) -> None:
    with pytest.raises(BundleError, match="ONNX Runtime cannot quantize the network"):
        quantize(b"no model", random_images(1, 8))
    assert not caplog.records
    assert logging.root.manager.disable == 0  # warnings of others are heard again


def test_weights_have_seven_bits_only_where_sums_of_bytes_saturate() -> None:
    assert needs_seven_bits(frozenset({"sse2", "avx2", "avx512f"}))
    assert not needs_seven_bits(frozenset({"avx2", "avx512_vnni"}))
    assert not needs_seven_bits(frozenset({"avx2", "avx_vnni"}))
    assert not needs_seven_bits(frozenset())  # not an x86 processor
