"""ONNX Runtime answers as the model file does, in both forms, and nothing wrong is kept."""

import json
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
from PIL import Image

import prunus
from prunus.arrays import DType
from prunus.backbone.zoo import load_backbone
from prunus.bundle.bundle import Bundle
from prunus.bundle.eight_bits.splitting import possible_integers
from prunus.bundle.file import read_bundle, write_bundle
from prunus.config import BackboneChoice
from prunus.errors import BundleError, StorageError
from prunus.onnx.coded_tensors import CodedTensors
from prunus.onnx.files import promise, weights_file
from prunus.quantizing.calibration import calibrate
from prunus.quantizing.coder import make_coder
from prunus.runtime.numpy_engine import NumpyEngine
from prunus.runtime.predictor import Predictor
from tests.makers.coded_bundles import integer_graph, random_coded_bundle, without_ones
from tests.makers.eight_bit_images import drawn_images
from tests.makers.graph_bundles import convolution, make_graph, random_bundle
from tests.makers.masked_networks import MODES, assert_same_logits, masked_network, packed, zoo_backbone
from tests.makers.slow_cases import slow_after_first

CLASSES = {"a": ("x", "y"), "b": ("x", "y", "z")}
NETWORKS = {
    "wrn14_2": 32,
    "timm/regnety_002": 32,
    "timm/mobilenetv3_large_100": 32,
    "timm/densenet121": 32,
    "timm/convnext_atto": 32,
}


def _model(name: str, path: Path, method: str = "union") -> Path:
    backbone = zoo_backbone(name, NETWORKS[name])
    net = masked_network(backbone, CLASSES, MODES[:-1], method=method)
    bundle = packed(net, backbone, CLASSES)
    assert_same_logits(net, NumpyEngine(bundle).logits, sensitive=method == "union", exact=True)
    write_bundle(path, bundle)
    return path


@pytest.mark.parametrize("name", slow_after_first(NETWORKS))
def test_onnx_runtime_answers_as_we_do_in_both_forms(name: str, tmp_path: Path) -> None:
    model = _model(name, tmp_path / "m.prunus")
    predictor = Predictor(model)
    files = prunus.export(model, tmp_path / "domains")
    (single,) = prunus.export(model, tmp_path / "single", single=True)
    images = np.random.default_rng(7).standard_normal((2, 3, NETWORKS[name], NETWORKS[name])).astype(np.float32)
    one = onnxruntime.InferenceSession(str(single))
    for number, (domain, file) in enumerate(zip(CLASSES, files, strict=True)):
        expected = predictor.logits(images, domain)
        allowed = 1e-4 * float(np.abs(expected).max())  # relative to the largest logit
        baked = onnxruntime.InferenceSession(str(file)).run(None, {"images": images})[0]
        assert np.abs(baked - expected).max() <= allowed
        chosen = one.run(None, {"images": images, "domain": np.array(number)})[0]
        assert np.abs(chosen[:, : len(CLASSES[domain])] - expected).max() <= allowed
        assert (chosen.argmax(1) < len(CLASSES[domain])).all()
    assert sorted(path.suffix for path in (tmp_path / "domains").iterdir()) == [".bin", ".json", ".onnx", ".onnx"]


def _locations(file: Path) -> dict[str, tuple[str, ...]]:
    tensors = onnx.load(str(file), load_external_data=False).graph.initializer
    return {tensor.name: tuple(entry.value for entry in tensor.external_data) for tensor in tensors}


def test_equal_weights_of_several_domains_lie_in_the_common_file_once(tmp_path: Path) -> None:
    files = prunus.export(_model("wrn14_2", tmp_path / "m.prunus", method="feature"), tmp_path / "out")
    first, second = map(_locations, files)
    assert (
        len([name for name, location in first.items() if location and second.get(name) == location]) >= 13
    )  # every convolution
    dense = load_backbone(BackboneChoice(name="wrn14_2")).network
    weights = 4 * sum(p.numel() for p in dense.parameters())
    (common,) = (tmp_path / "out").glob("weights-*.bin")
    assert common.stat().st_size < 1.1 * weights


def test_a_model_that_answers_differently_is_not_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model = _model("wrn14_2", tmp_path / "m.prunus")
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "a.onnx").write_text("an earlier one")
    real = Predictor.logits
    monkeypatch.setattr(Predictor, "logits", lambda self, x, d: real(self, x, d) + 0.5)
    with pytest.raises(BundleError, match="the logits of ONNX Runtime for 'a' differ by"):
        prunus.export(model, tmp_path / "out")
    assert [path.name for path in (tmp_path / "out").iterdir()] == ["a.onnx"]
    assert (tmp_path / "out" / "a.onnx").read_text() == "an earlier one"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["m.prunus", "out"]


def test_the_folder_may_be_the_one_one_stands_in(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _model("wrn14_2", tmp_path / "m.prunus")
    (tmp_path / "weights-of-old.bin").write_text("of another model")
    monkeypatch.chdir(tmp_path)
    models = prunus.export("m.prunus", ".")
    weights = weights_file(models[0])
    assert weights is not None
    written = [*models, weights, Path("labels.json"), Path("m.prunus"), Path("weights-of-old.bin")]
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(path.name for path in written)


def test_a_folder_that_cannot_be_written_says_what_to_do(tmp_path: Path) -> None:
    model = _model("wrn14_2", tmp_path / "m.prunus")
    with pytest.raises(BundleError, match="is a file; name a folder"):
        prunus.export(model, model)
    with pytest.raises(StorageError, match=r"cannot write .*; existing files are unchanged"):
        prunus.export(model, model / "below")


@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_exported_files_are_hardly_larger_than_the_model_file(tmp_path: Path, dtype: DType) -> None:
    backbone = zoo_backbone("wrn14_2", 32)
    classes = dict.fromkeys("abcde", ("x", "y"))
    model = tmp_path / "m.prunus"
    write_bundle(model, packed(masked_network(backbone, classes, ["half"]), backbone, classes), dtype)
    for is_single in (False, True):
        folder = tmp_path / f"onnx-{is_single}"
        prunus.export(model, folder, is_single)
        assert sum(path.stat().st_size for path in folder.iterdir()) < 1.2 * model.stat().st_size


def _coded(bundle: Bundle, floats: tuple[int, ...] = ()) -> Bundle:
    """Return an 8-bit bundle in which everything that can computes with integers, but for some operations."""
    pictures = {domain: drawn.calibration for domain, drawn in drawn_images(bundle, 4, 0).items()}
    coder = make_coder(bundle, calibrate(bundle, pictures, "largest"), "largest")
    return coder.coded([number for number in possible_integers(bundle) if number not in floats])


@pytest.mark.parametrize("is_single", [False, True])
def test_an_8_bit_file_becomes_models_of_about_a_byte_per_weight(tmp_path: Path, is_single: bool) -> None:
    backbone = zoo_backbone("wrn14_2", 32)
    classes = dict.fromkeys("abc", ("x", "y"))
    bundle = _coded(packed(masked_network(backbone, classes, ["half"]), backbone, classes))
    write_bundle(tmp_path / "m.prunus", bundle, "int8")
    files = prunus.export(tmp_path / "m.prunus", tmp_path / "out", is_single)
    written = [path for path in (tmp_path / "out").iterdir() if path.suffix != ".json"]
    kernels = sum(array.nbytes for name, array in bundle.arrays.items() if name.startswith("kernels/"))
    assert kernels > 200_000
    assert sum(path.stat().st_size for path in written) < 1.2 * (tmp_path / "m.prunus").stat().st_size
    images = np.random.default_rng(7).standard_normal((4, 3, 32, 32)).astype(np.float32)
    for number, domain in enumerate(classes):
        feed = {"images": images} | ({"domain": np.array(number)} if is_single else {})
        logits = onnxruntime.InferenceSession(str(files[0 if is_single else number])).run(None, feed)[0]
        expected = Predictor(tmp_path / "m.prunus").logits(images, domain)
        assert np.abs(logits - expected).max() <= 0.1 * np.abs(expected).max()


@pytest.mark.parametrize("is_single", [False, True])
def test_a_layer_of_floats_between_layers_of_codes_is_exact(tmp_path: Path, is_single: bool) -> None:
    layers = [convolution("a", [0], (8, 3)), convolution("b", [1], (8, 8)), convolution("c", [2], (8, 8))]
    bundle = random_bundle(make_graph(*layers, {"op": "mean", "inputs": (3,)}), 8, density=1.0)
    bundle = _coded(without_ones(bundle), floats=(1,))
    assert bundle.manifest.integers == (0, 2, 3)
    write_bundle(tmp_path / "m.prunus", bundle, "int8")
    prunus.export(tmp_path / "m.prunus", tmp_path / "out", is_single)
    assert (tmp_path / "out").exists()


def test_an_8_bit_model_that_computes_something_else_is_not_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_bundle(tmp_path / "m.prunus", random_coded_bundle(integer_graph(0), 12, density=1.0), "int8")
    prunus.export(tmp_path / "m.prunus", tmp_path / "out")
    real = CodedTensors.coding

    def swapped(self: CodedTensors, value: int) -> tuple[str, str]:
        return real(self, 2 if value == 1 else value)

    monkeypatch.setattr(CodedTensors, "coding", swapped)
    with pytest.raises(BundleError, match=r"ONNX Runtime computes codes\.\d+ of 'a' with .* times the error"):
        prunus.export(tmp_path / "m.prunus", tmp_path / "other")
    assert not (tmp_path / "other").exists()


def test_what_was_checked_is_said_in_words() -> None:
    floats = random_bundle(integer_graph(0), 12)
    assert promise(floats) == "the logits are those of the model file to within 0.0001 of the largest"
    coded = promise(random_coded_bundle(integer_graph(0), 12))
    assert coded.startswith("every operation with 8-bit results is exact to about half a step, and the logits")
    without_integers = random_coded_bundle(integer_graph(0), 12, share=0.0)
    assert without_integers.dtype == "int8"
    assert promise(without_integers) == promise(floats)


def test_an_8_bit_file_without_integer_operations_must_have_the_same_logits(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_bundle(tmp_path / "m.prunus", random_coded_bundle(integer_graph(0), 12, share=0.0), "int8")
    prunus.export(tmp_path / "m.prunus", tmp_path / "out")
    real = Predictor.logits
    monkeypatch.setattr(Predictor, "logits", lambda self, x, d: real(self, x, d) * 1.001)
    with pytest.raises(BundleError, match="the logits of ONNX Runtime for 'a' differ by"):
        prunus.export(tmp_path / "m.prunus", tmp_path / "other")


def test_whole_layers_of_float16_files_take_half_the_bytes(tmp_path: Path) -> None:
    backbone = zoo_backbone("wrn14_2", 32)
    bundle = packed(masked_network(backbone, CLASSES, ["everything on"], method="feature"), backbone, CLASSES)
    sizes = {}
    for dtype in ("float32", "float16"):
        write_bundle(tmp_path / f"{dtype}.prunus", bundle, dtype)
        prunus.export(tmp_path / f"{dtype}.prunus", tmp_path / dtype)
        (weights,) = (tmp_path / dtype).glob("weights-*.bin")
        sizes[dtype] = weights.stat().st_size
    assert sizes["float16"] < 0.52 * sizes["float32"]


@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_runtimes_make_the_dense_weights_once_when_they_load_a_model(tmp_path: Path, dtype: DType) -> None:
    model = _model("wrn14_2", tmp_path / "m.prunus")
    write_bundle(model, read_bundle(model), dtype)
    file = prunus.export(model, tmp_path / "out")[0]
    options = onnxruntime.SessionOptions()
    options.optimized_model_filepath = str(tmp_path / "out" / "optimized.onnx")
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_BASIC
    onnxruntime.InferenceSession(str(file), options, providers=["CPUExecutionProvider"])
    before, after = (
        {node.op_type for node in onnx.load(str(path), load_external_data=False).graph.node}
        for path in (file, tmp_path / "out" / "optimized.onnx")
    )
    packing = {"ScatterElements", "Gather", "CumSum", "Range", "Split", "Reshape", "Cast", "Mod", "Div", "Slice"}
    assert packing <= before
    casts = {"Cast"} if dtype == "float16" else set()  # of float16 tensors, to what the processor computes with
    assert not (packing - casts) & after


@pytest.mark.parametrize("is_single", [False, True])
def test_models_say_what_they_expect_and_return(tmp_path: Path, is_single: bool) -> None:
    model = _model("wrn14_2", tmp_path / "m.prunus")
    files = prunus.export(model, tmp_path / "out", is_single)
    labels = json.loads((tmp_path / "out" / "labels.json").read_text())
    manifest = Predictor(model).bundle.manifest
    for number, (domain, classes) in enumerate(CLASSES.items()):
        described = labels["domains"][domain]
        assert described["classes"] == list(classes)
        assert described["file"] == files[0 if is_single else number].name
        assert described.get("number") == (number if is_single else None)
        properties = onnxruntime.InferenceSession(str(files[0 if is_single else number])).get_modelmeta()
        assert properties.producer_name == "prunus"
        metadata = properties.custom_metadata_map
        assert json.loads(metadata["classes"])[domain] == list(classes)
        assert json.loads(metadata["domains"]) == (list(CLASSES) if is_single else [domain])
        preprocess = manifest.domains[domain].preprocess.model_dump(mode="json")
        for found in (described["preprocess"], json.loads(metadata["preprocess"])[domain]):
            assert {key: found[key] for key in preprocess} == preprocess


def test_an_image_prepared_as_the_labels_say_has_the_right_logits(tmp_path: Path) -> None:
    model = _model("wrn14_2", tmp_path / "m.prunus")
    (file, _) = prunus.export(model, tmp_path / "out")
    told = json.loads((tmp_path / "out" / "labels.json").read_text())["domains"]["a"]["preprocess"]
    picture = Image.fromarray(np.random.default_rng(3).integers(0, 256, (50, 70, 3), np.uint8))
    square = picture.crop((10, 0, 60, 50)).resize((told["resize"], told["resize"]), Image.Resampling.BILINEAR)
    margin = (told["resize"] - told["size"]) // 2
    pixels = np.asarray(square)[margin : margin + told["size"], margin : margin + told["size"]] / 255
    images = ((pixels - told["mean"]) / told["std"]).transpose(2, 0, 1)[None].astype(np.float32)
    logits = onnxruntime.InferenceSession(str(file)).run(None, {"images": images})[0][0]
    (expected,) = Predictor(model)(picture, "a")
    probabilities = np.exp(logits - logits.max()) / np.exp(logits - logits.max()).sum()
    by_class = {prediction.label: prediction.probability for prediction in expected}
    np.testing.assert_allclose(probabilities, [by_class[label] for label in CLASSES["a"]], atol=1e-4)
