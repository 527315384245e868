"""ONNX Runtime answers as the model file does, in both forms, and nothing wrong is kept."""

from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest

import prunus
from prunus.backbone.zoo import load_backbone
from prunus.bundle.file import write_bundle
from prunus.config import BackboneChoice
from prunus.errors import BundleError, StorageError
from prunus.onnx.files import weights_file
from prunus.runtime.numpy_engine import NumpyEngine
from prunus.runtime.predictor import Predictor
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
    assert sorted(path.suffix for path in (tmp_path / "domains").iterdir()) == [".bin", ".onnx", ".onnx"]


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
    written = [*models, weights, Path("m.prunus"), Path("weights-of-old.bin")]
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(path.name for path in written)


def test_a_folder_that_cannot_be_written_says_what_to_do(tmp_path: Path) -> None:
    model = _model("wrn14_2", tmp_path / "m.prunus")
    with pytest.raises(BundleError, match="is a file; name a folder"):
        prunus.export(model, model)
    with pytest.raises(StorageError, match=r"cannot write .*; existing files are unchanged"):
        prunus.export(model, model / "below")
