"""ONNX Runtime computes every operation as the numpy engine does."""

from collections import Counter
from pathlib import Path
from typing import Any, get_args

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx.reference import ReferenceEvaluator

from prunus.arrays import Floats
from prunus.bundle.bundle import Bundle
from prunus.bundle.dtypes import encode
from prunus.graph.operations import ActivationName
from prunus.onnx.coded_check import NAMES, CodedCheck
from prunus.onnx.coded_network import CodedNetwork, common_network, domain_network
from prunus.onnx.model import common_model, domain_model
from prunus.runtime.numpy_engine import NumpyEngine
from tests.makers.coded_bundles import integer_graph, random_coded_bundle
from tests.makers.graph_bundles import CLASSES, convolution, make_graph, random_bundle, varied_graph


def _run(model: Any, **inputs: Any) -> Floats:  # noqa: ANN401  # onnx is untyped
    onnx.checker.check_model(model, full_check=True)
    logits: Floats = onnxruntime.InferenceSession(model.SerializeToString()).run(None, inputs)[0]
    return logits


def _assert_both_forms_answer_alike(bundle: Bundle) -> None:
    engine, size, common = NumpyEngine(bundle), bundle.manifest.image_size, common_model(onnx, bundle)
    images = np.random.default_rng(0).standard_normal((2, 3, size, size)).astype(np.float32)
    for number, domain in enumerate(bundle.domains):
        expected = engine.logits(images, domain)
        allowed = 1e-5 * max(1.0, float(np.abs(expected).max()))
        assert np.abs(_run(domain_model(onnx, bundle, domain), images=images) - expected).max() <= allowed
        assert np.abs(_run(common, images=images, domain=np.array(number)) - expected).max() <= allowed


@pytest.mark.parametrize("seed", range(6))
def test_a_graph_with_every_operation_is_computed_alike(seed: int) -> None:
    bundle = random_bundle(varied_graph(seed), 12, density=(0.05, 0.4)[seed % 2], seed=seed)
    _assert_both_forms_answer_alike(bundle)


@pytest.mark.parametrize("name", get_args(ActivationName))
def test_an_activation_is_computed_alike(name: str) -> None:
    layer = convolution("c", [0], (4, 3), activation=name, slope=0.3)
    _assert_both_forms_answer_alike(random_bundle(make_graph(layer), 5, domains=("a",), density=1.0))


@pytest.mark.parametrize("kind", ["max", "mean"])
@pytest.mark.parametrize("ceil", [False, True])
@pytest.mark.parametrize("count_pads", [False, True])
@pytest.mark.parametrize("pads", [(0, 0, 0, 0), (1, 1, 1, 1), (0, 0, 1, 1)])
def test_a_pool_is_computed_alike(kind: str, ceil: bool, count_pads: bool, pads: tuple[int, ...]) -> None:
    pool = {"op": "pool", "inputs": (0,), "kind": kind, "kernel": (3, 2), "stride": (2, 3), "pads": pads}
    graph = make_graph(pool | {"ceil": ceil, "count_pads": count_pads})
    for size in (6, 7, 8):
        _assert_both_forms_answer_alike(random_bundle(graph, size, domains=("a",)))


def test_one_domain_alone_can_be_chosen_too() -> None:
    bundle = random_bundle(varied_graph(1), 12, domains=("only",))
    assert _run(common_model(onnx, bundle), images=np.zeros((1, 3, 12, 12), np.float32), domain=np.array(0)).shape == (
        1,
        len(CLASSES),
    )


def _half(bundle: Bundle) -> Bundle:
    stored = {
        name: encode(array, "float16") if name.startswith(("kernels/", "head/")) else array
        for name, array in bundle.arrays.items()
    }
    return Bundle(bundle.manifest, stored)


@pytest.mark.parametrize("seed", range(4))
def test_models_of_float16_files_compute_in_float16_what_the_file_does(seed: int) -> None:
    bundle = _half(random_bundle(varied_graph(seed), 12, density=(0.3, 1.0)[seed % 2], seed=seed))
    engine, common = NumpyEngine(bundle), common_model(onnx, bundle)
    images = np.random.default_rng(0).standard_normal((2, 3, 12, 12)).astype(np.float32)
    for number, domain in enumerate(bundle.domains):
        expected = engine.logits(images, domain)
        allowed = 5e-3 * max(1.0, float(np.abs(expected).max()))
        model = domain_model(onnx, bundle, domain)
        assert np.abs(_run(model, images=images) - expected).max() <= allowed
        assert np.abs(_run(common, images=images, domain=np.array(number)) - expected).max() <= allowed
        # ONNX Runtime computes float16 in float32 on x86; the reference rounds every result to float16
        with np.errstate(all="ignore"):  # its sigmoid overflows on its way to 1
            rounded = np.asarray(next(iter(ReferenceEvaluator(model).run(None, {"images": images}))), np.float32)
        assert np.abs(rounded - expected).max() <= allowed
        assert np.abs(rounded - expected).max() > 0


def test_the_convolutions_of_a_float16_model_read_float16() -> None:
    model = domain_model(onnx, _half(random_bundle(varied_graph(1), 12)), "a")
    inferred: Any = onnx.shape_inference.infer_shapes(model)
    types = {value.name: value.type.tensor_type.elem_type for value in inferred.graph.value_info}
    convs = [node for node in model.graph.node if node.op_type == "Conv" and not node.input[0].startswith("Expand")]
    read = [name for node in convs for name in node.input[:2]]
    assert len(convs) >= 6
    assert {types[name] for name in read} == {onnx.TensorProto.FLOAT16}


INTEGER_OPERATORS = {
    "QLinearAdd",
    "QLinearConcat",
    "QLinearConv",
    "QLinearGlobalAveragePool",
    "QLinearMul",
    "QGemm",
}


def _operators(model: Any, path: Path) -> Counter[str]:  # noqa: ANN401  # onnx is untyped
    """Count the operators that ONNX Runtime makes of a model."""
    options = onnxruntime.SessionOptions()
    options.optimized_model_filepath = str(path)
    options.log_severity_level = 3  # it warns that the written model fits this machine
    onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    return Counter(node.op_type for node in onnx.load(str(path)).graph.node)


def _errors(model: Any, coded: CodedNetwork, index: int, **inputs: Any) -> dict[str, float]:  # noqa: ANN401
    names = [name for node in model.graph.node for name in node.output if name.startswith(NAMES)]
    for name in names:
        kind = onnx.TensorProto.UINT8 if name.startswith("codes") else onnx.TensorProto.FLOAT
        model.graph.output.append(onnx.helper.make_tensor_value_info(name, kind, None))
    found = onnxruntime.InferenceSession(model.SerializeToString()).run(["logits", *names], inputs)
    values = dict(zip(["logits", *names], found, strict=True)) | {"images": inputs["images"]}
    return dict(CodedCheck(coded, index, values).errors())


@pytest.mark.parametrize("share", [1.0, 0.6])
@pytest.mark.parametrize("seed", range(4))
def test_every_operation_of_an_8_bit_file_rounds_to_the_nearest_code(seed: int, share: float) -> None:
    bundle = random_coded_bundle(integer_graph(seed), 12, share, seed, density=(0.3, 1.0)[seed % 2])
    images = np.random.default_rng(0).standard_normal((2, 3, 12, 12)).astype(np.float32)
    for number, domain in enumerate(bundle.domains):
        expected = NumpyEngine(bundle).logits(images, domain)
        allowed = 0.05 * float(np.abs(expected).max())  # codes that are rounded the other way make others differ
        alone, common = domain_model(onnx, bundle, domain), common_model(onnx, bundle)
        assert np.abs(_run(alone, images=images) - expected).max() <= allowed
        assert np.abs(_run(common, images=images, domain=np.array(number)) - expected).max() <= allowed
        errors = _errors(alone, domain_network(bundle, domain)[0], 0, images=images)
        assert {name: error for name, error in errors.items() if error > 1} == {}
        errors = _errors(common, common_network(bundle), number, images=images, domain=np.array(number))
        assert {name: error for name, error in errors.items() if error > 1} == {}


def test_integer_operations_of_a_domain_become_integer_operators(tmp_path: Path) -> None:
    bundle = random_coded_bundle(integer_graph(0), 12, density=1.0)
    operators = _operators(domain_model(onnx, bundle, "a"), tmp_path / "optimized.onnx")
    assert operators.keys() >= INTEGER_OPERATORS
    convolutions = [operation for operation in bundle.manifest.graph if operation.op == "conv"]
    adding = [operation for operation in convolutions if len(operation.inputs) == 2]
    assert len(adding) == 1
    assert operators["QLinearConv"] == len(convolutions) - len(adding)
    assert operators["Conv"] + operators["FusedConv"] == len(adding)  # sums of floats, with weights made once
    assert operators["Where"] == operators["Cast"] == 0


@pytest.mark.parametrize("gain", [-1.0, 0.0, 1e-9])
def test_norms_that_a_scale_cannot_hold_are_computed_alike(gain: float) -> None:
    graph = make_graph(convolution("c", [0], (4, 3)), {"op": "mean", "inputs": (1,)})
    bundle = random_coded_bundle(graph, 6, density=1.0)
    scales = {"shared/0.scale": np.array([gain, 1, -1, gain], np.float32)}
    biases = {"shared/0.bias": np.array([0.1, -0.2, 0, 0.7], np.float32)}
    others = {name: array for name, array in bundle.arrays.items() if not name.startswith("norm/")}
    bundle = Bundle(bundle.manifest, others | scales | biases)
    images = np.random.default_rng(0).standard_normal((2, 3, 6, 6)).astype(np.float32)
    expected = NumpyEngine(bundle).logits(images, "a")
    for model, inputs in (
        (domain_model(onnx, bundle, "a"), {}),
        (common_model(onnx, bundle), {"domain": np.array(0)}),
    ):
        error = np.abs(_run(model, images=images, **inputs) - expected).max()
        assert error <= 0.02 * float(np.abs(expected).max())


def test_an_8_bit_file_without_integer_operations_is_computed_with_floats() -> None:
    bundle = random_coded_bundle(varied_graph(0), 12, share=0.0)
    assert bundle.manifest.integers == ()
    _assert_both_forms_answer_alike(bundle)
