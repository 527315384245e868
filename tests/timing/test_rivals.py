"""The engines that a model file is compared with."""

import sys
from types import SimpleNamespace
from typing import Any

import numpy as np
import onnx
import pytest
import torch

from prunus.arrays import DType, Floats
from prunus.backbone.zoo import load_backbone
from prunus.bundle.bundle import Bundle
from prunus.bundle.dtypes import encode
from prunus.bundle.eight_bits.splitting import possible_integers
from prunus.bundle.manifest import DomainEntry
from prunus.config import BackboneChoice
from prunus.lowering.pack import pack
from prunus.methods.table import adapt
from prunus.quantizing.calibration import calibrate
from prunus.quantizing.coder import make_coder
from prunus.runtime.numpy_engine import NumpyEngine
from prunus.timing.eight_bits import quantize
from prunus.timing.rivals import Rivals, Runs, torch_threads
from tests.makers.eight_bit_images import drawn_images

OPENVINO = {"openvino_int8", "openvino_bf16"}  # not among the packages of this project


@pytest.fixture(scope="module")
def bundle() -> Bundle:
    backbone = load_backbone(BackboneChoice(name="wrn14_2"))
    net = adapt(backbone, {"birds": ("owl", "wren"), "signs": ("stop", "go", "yield")}, "union").eval()
    entries = {name: DomainEntry(classes=each, preprocess=backbone.preprocess) for name, each in net.classes.items()}
    return pack(net, backbone, entries, {})


def _installed(rivals: Rivals) -> Runs:
    """Return what every machine with this project's packages can run."""
    return {key: run for key, run in rivals.runs(threads=1).items() if key[0] not in OPENVINO}


def _images(bundle: Bundle) -> Floats:
    size = bundle.manifest.image_size
    return np.random.default_rng(0).standard_normal((2, 3, size, size)).astype(np.float32)


def test_a_pruned_onnx_model_answers_as_the_model_file_does(bundle: Bundle) -> None:
    rivals = Rivals(bundle, ["signs"])
    runs = _installed(rivals)
    dense = ("ONNX dense", "PyTorch dense", "onnxruntime_int8")
    assert set(runs) == {("ONNX pruned", "signs"), *((engine, None) for engine in dense)}
    assert rivals.versions.keys() - {"openvino"} == {"numpy", "onnxruntime", "torch"}
    assert rivals.missing.keys() <= OPENVINO
    images = _images(bundle)
    answers = runs["ONNX pruned", "signs"](images)
    expected = NumpyEngine(bundle).logits(images, "signs")
    np.testing.assert_allclose(answers, expected, rtol=1e-3, atol=1e-4)


def test_with_images_every_domain_is_quantized_and_answers_nearly_alike(bundle: Bundle) -> None:
    images = _images(bundle)
    runs = _installed(Rivals(bundle, ["birds", "signs"], {"signs": images}))
    assert {domain for engine, domain in runs if engine == "onnxruntime_int8"} == {None, "signs"}
    answers = runs["onnxruntime_int8", "signs"](images)
    expected = NumpyEngine(bundle).logits(images, "signs")
    assert not np.allclose(answers, expected, rtol=1e-5)  # 8 bits round
    np.testing.assert_allclose(answers, expected, atol=0.2 * float(np.abs(expected).max()))


def _stored(bundle: Bundle, dtype: DType) -> Bundle:
    """Return a bundle with numbers of another type; with 8 bits, everything that can computes with integers."""
    if dtype == "int8":
        pictures = {domain: drawn.calibration for domain, drawn in drawn_images(bundle, 2, 0).items()}
        coder = make_coder(bundle, calibrate(bundle, pictures, "largest"), "largest")
        return coder.coded(possible_integers(bundle))
    stored = {
        name: encode(array, dtype) if name.startswith(("kernels/", "head/")) else array
        for name, array in bundle.arrays.items()
    }
    return Bundle(bundle.manifest, stored)


@pytest.mark.parametrize("dtype", ["int8", "float16"])
def test_what_is_quantized_has_float32_numbers_whatever_the_type_of_the_file(
    bundle: Bundle, dtype: DType, monkeypatch: pytest.MonkeyPatch
) -> None:
    given: list[Any] = []

    def watched(model: bytes, images: Floats) -> bytes:
        given.append(onnx.load_from_string(model))
        return quantize(model, images)

    monkeypatch.setattr("prunus.timing.eight_bits.quantize", watched)
    stored, images = _stored(bundle, dtype), _images(bundle)
    assert stored.dtype == dtype
    runs = _installed(Rivals(stored, ["signs"], {"signs": images}))
    assert len(given) == 2  # the dense network and that of the domain
    for model in given:
        types = {tensor.name: tensor.data_type for tensor in model.graph.initializer}
        kernels = [name for name in types if name.startswith(("dense.", "kernels.")) and not name.endswith(".bits")]
        assert {types[name] for name in (*kernels, "head.weight")} == {onnx.TensorProto.FLOAT}
        assert onnx.TensorProto.FLOAT16 not in types.values()
        assert not {node.op_type for node in model.graph.node} & {"QuantizeLinear", "DequantizeLinear"}
    answers, expected = runs["onnxruntime_int8", "signs"](images), NumpyEngine(stored).logits(images, "signs")
    np.testing.assert_allclose(answers, expected, atol=0.3 * float(np.abs(expected).max()))


def test_the_dense_networks_have_the_first_domains_number_of_classes(bundle: Bundle) -> None:
    runs = Rivals(bundle, ["signs"]).runs(threads=1)
    shapes = {runs[engine, domain](_images(bundle)).shape for engine, domain in runs if domain is None}
    assert shapes == {(2, 2)}


def test_what_is_not_installed_is_missing_with_the_reason(bundle: Bundle, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "onnxruntime", None)
    rivals = Rivals(bundle, ["birds"])
    assert rivals.missing.keys() - OPENVINO == {"ONNX pruned", "ONNX dense", "onnxruntime_int8"}
    command = "pip install 'prunus[onnx]' (in a checkout: pip install '.[onnx]')"
    message = f"onnxruntime is not installed; install it with: {command}"
    assert {reason for engine, reason in rivals.missing.items() if engine not in OPENVINO} == {message}
    assert set(_installed(rivals)) == {("PyTorch dense", None)}


def test_openvino_is_missing_by_its_own_name(bundle: Bundle, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "openvino", None)
    rivals = Rivals(bundle, ["birds"])
    assert rivals.missing == dict.fromkeys(OPENVINO, "openvino is not installed")


def test_an_engine_that_cannot_load_a_network_is_missing_with_the_reason(
    bundle: Bundle, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Core:
        """An OpenVINO that reads models and cannot compile those of 8 bits."""

        def read_model(self, model: bytes) -> str:
            """Tell models apart as bytes of their nodes do."""
            return "int8" if b"DequantizeLinear" in model else "float"

        def compile_model(self, model: str, device: str, settings: dict[str, object]) -> SimpleNamespace:
            """Answer zeros."""
            assert (device, settings["INFERENCE_NUM_THREADS"]) == ("CPU", 1)
            if model == "int8":
                raise RuntimeError("Exception from src/core.cpp:1:\nArgument shapes are inconsistent.\n")
            assert settings["INFERENCE_PRECISION_HINT"] == "bf16"
            request = SimpleNamespace(infer=lambda inputs: [np.zeros((len(inputs["images"]), 2), np.float32)])
            return SimpleNamespace(create_infer_request=lambda: request)

    monkeypatch.setitem(sys.modules, "openvino", SimpleNamespace(Core=Core, __version__="2026.4.1-22982-releases"))
    rivals = Rivals(bundle, ["birds"])
    reason = "OpenVINO cannot load the network: Argument shapes are inconsistent.; try another version"
    assert rivals.missing == {"openvino_int8": reason}
    assert rivals.versions["openvino"] == "2026.4.1"
    assert rivals.runs(threads=1)["openvino_bf16", None](_images(bundle)).shape == (2, 2)


def test_torch_gets_its_number_of_threads_back() -> None:
    before = torch.get_num_threads()
    with pytest.raises(RuntimeError), torch_threads(before + 1):
        assert torch.get_num_threads() == before + 1
        raise RuntimeError
    assert torch.get_num_threads() == before
