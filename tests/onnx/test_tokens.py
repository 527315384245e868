"""Each operation on tokens, alone in a graph, gives the same in ONNX Runtime and in double precision."""

import numpy as np
import onnx
import onnxruntime
import pytest

from prunus.arrays import Floats
from prunus.bundle.bundle import Bundle
from prunus.bundle.dtypes import encode
from prunus.onnx.model import domain_model
from prunus.timing import sessions
from prunus.timing.eight_bits import quantize
from tests.makers.graph_bundles import convolution, exact_logits, make_graph, random_bundle
from tests.makers.token_networks import ONE, attention

IMAGES: Floats = np.random.default_rng(2).standard_normal((3, 3, 8, 8)).astype(np.float32)
PATCHES = convolution("patch", [0], (24, 3), kernel=(2, 2), stride=(2, 2), pads=(0, 0, 0, 0))
REARRANGE: dict[str, object] = {"op": "rearrange", "inputs": (1,)}
OPERATIONS: dict[str, dict[str, object]] = {
    "numbers by pixel": {"op": "affine_map", "inputs": (1,), "sides": (4, 4)},
    "tokens before pixels": {"op": "join_pixels", "inputs": (1, 1), "count": 3},
    "pixels alone": {"op": "join_pixels", "inputs": (1,)},
    "transposed": REARRANGE | {"target": (16, 1, 24), "sizes": (16, 24), "strides": (1, 16)},
    "same order": REARRANGE | {"target": (12, 4, 8), "sizes": (24, 16), "strides": (16, 1)},
    "some numbers": REARRANGE | {"target": (2, 1, 5), "sizes": (2, 5), "strides": (100, 3), "offset": 9},
    "a number twice": REARRANGE | {"target": (24, 1, 2), "sizes": (24, 2), "strides": (16, 0)},
    "attention": attention((1, 1, 1), pairs=(16, 16)),
    "attention in windows": attention((1, 1, 1), window=(2, 2), shift=(1, 0), apart=-7.0),
}


@pytest.mark.parametrize("name", OPERATIONS)
def test_onnx_runtime_computes_each_operation(name: str) -> None:
    bundle = random_bundle(make_graph(PATCHES, OPERATIONS[name]), 8)
    for domain in bundle.domains:
        model = domain_model(onnx, bundle, domain)
        session = onnxruntime.InferenceSession(model.SerializeToString())
        expected = exact_logits(bundle, IMAGES, domain)
        (answer,) = session.run(None, {"images": IMAGES})
        np.testing.assert_allclose(answer, expected, rtol=0, atol=2e-6 * np.abs(expected).max())


def test_runtimes_repeat_the_tokens_of_a_float16_model_without_a_warning(capfd: pytest.CaptureFixture[str]) -> None:
    bundle = random_bundle(make_graph(PATCHES, OPERATIONS["tokens before pixels"]), 8)
    arrays = {
        name: encode(array, "float16") if name.startswith(("kernels/", "head/")) else array
        for name, array in bundle.arrays.items()
    }
    tokens = {"shared/1.tokens": np.ones((24, 3), np.float32)}
    half = Bundle(bundle.manifest, {name: array for name, array in arrays.items() if "1.tokens" not in name} | tokens)
    session = onnxruntime.InferenceSession(domain_model(onnx, half, "a").SerializeToString())
    expected = exact_logits(half, IMAGES, "a")
    (answer,) = session.run(None, {"images": IMAGES})
    np.testing.assert_allclose(answer, expected, rtol=0, atol=5e-3 * np.abs(expected).max())
    assert capfd.readouterr() == ("", "")


def test_tokens_are_joined_and_not_added_so_that_openvino_loads_the_8_bit_form() -> None:
    bundle = random_bundle(make_graph(PATCHES, OPERATIONS["tokens before pixels"]), 8)
    model = domain_model(onnx, bundle, "a")
    inferred = onnx.shape_inference.infer_shapes(model, strict_mode=True, data_prop=True).graph
    assert "Pad" not in {node.op_type for node in inferred.node}
    joined = next(node.output[0] for node in inferred.node if node.op_type == "Concat" and len(node.input) == 3)
    (shape,) = [value.type.tensor_type.shape for value in inferred.value_info if value.name == joined]
    assert [side.dim_value for side in shape.dim[1:]] == [24, 3 + 16 + 16]
    pytest.importorskip("openvino")  # not among the packages of this project
    answers = sessions.openvino_run(quantize(model.SerializeToString(), IMAGES), 1, "f32")(IMAGES)
    expected = exact_logits(bundle, IMAGES, "a")
    np.testing.assert_allclose(answers, expected, rtol=0, atol=0.1 * np.abs(expected).max())


def test_a_transposition_is_no_lookup_of_every_number() -> None:
    def nodes(name: str) -> list[str]:
        model = domain_model(onnx, random_bundle(make_graph(PATCHES, OPERATIONS[name]), 8), "a")
        return [node.op_type for node in model.graph.node]

    lookups = {name: nodes(name).count("Gather") for name in ("transposed", "same order", "some numbers")}
    assert lookups["transposed"] == lookups["same order"] == lookups["some numbers"] - 1
    assert nodes("transposed").count("Transpose") == nodes("same order").count("Transpose") + 1


def test_a_linear_layer_reads_what_was_rearranged() -> None:
    mixed = convolution("mixed", [2], (5, 16), **ONE)
    bundle = random_bundle(make_graph(PATCHES, OPERATIONS["transposed"], mixed), 8)
    session = onnxruntime.InferenceSession(domain_model(onnx, bundle, "b").SerializeToString())
    expected = exact_logits(bundle, IMAGES, "b")
    (answer,) = session.run(None, {"images": IMAGES})
    np.testing.assert_allclose(answer, expected, rtol=0, atol=2e-6 * np.abs(expected).max())
