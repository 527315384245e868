"""ONNX Runtime answers as the model file does, in both forms, and nothing wrong is kept."""

from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
import torch

import prunus
from prunus.backbone.zoo import load_backbone
from prunus.bundle.file import write_bundle
from prunus.bundle.manifest import DomainEntry
from prunus.config import BackboneChoice
from prunus.errors import BundleError
from prunus.methods.table import adapt
from prunus.pruning.pack import pack
from prunus.runtime.predictor import Predictor

CLASSES = {"a": ("x", "y"), "b": ("x", "y", "z")}
NETWORKS = {"wrn14_2": 32, "timm/resnet18": 64, "timm/mobilenetv3_large_100": 64, "timm/densenet121": 32}


def _model(name: str, path: Path, method: str = "union") -> Path:
    weights = "random" if name.startswith("timm/") else "pretrained"
    backbone = load_backbone(BackboneChoice(name=name, weights=weights, size=NETWORKS[name]))
    net = adapt(backbone, CLASSES, method)
    generator = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for key, tensor in [*net.named_parameters(), *net.named_buffers()]:
            if not key.startswith("network.") and ("running_mean" in key or tensor.requires_grad):
                tensor.add_(torch.randn(tensor.shape, generator=generator) * 0.1)
        if net.switches:
            scores = net.switches.scores_DM
            scores.copy_(torch.rand(scores.shape, generator=generator) - 0.4)
            for view in net.switches.layout.views(scores).values():  # some channels that no domain feeds
                view[:, torch.rand(view.shape[1], generator=generator) < 0.3] = -1.0
    entries = {domain: DomainEntry(classes=names, preprocess=backbone.preprocess) for domain, names in CLASSES.items()}
    write_bundle(path, pack(net, backbone, entries, {"recipe": {}, "step": 1, "total_steps": 1}))
    return path


@pytest.mark.parametrize("name", NETWORKS)
def test_onnx_runtime_answers_as_we_do_in_both_forms(name: str, tmp_path: Path) -> None:
    model = _model(name, tmp_path / "m.prunus")
    predictor = Predictor(model)
    files = prunus.export(model, tmp_path / "domains")
    (single,) = prunus.export(model, tmp_path / "single", single=True)
    images = np.random.default_rng(7).standard_normal((2, 3, NETWORKS[name], NETWORKS[name])).astype(np.float32)
    one = onnxruntime.InferenceSession(str(single))
    for number, (domain, file) in enumerate(zip(CLASSES, files, strict=True)):
        expected = predictor.logits(images, domain)
        allowed = 1e-4 * float(np.abs(expected).max())
        baked = onnxruntime.InferenceSession(str(file)).run(None, {"images": images})[0]
        assert np.abs(baked - expected).max() <= allowed
        chosen = one.run(None, {"images": images, "domain": np.array(number)})[0]
        assert np.abs(chosen[:, : len(CLASSES[domain])] - expected).max() <= allowed
        assert (chosen.argmax(1) < len(CLASSES[domain])).all()
    assert sorted(path.suffix for path in (tmp_path / "domains").iterdir()) == [".bin", ".onnx", ".onnx"]


def _places(file: Path) -> dict[str, tuple[str, ...]]:
    tensors = onnx.load(str(file), load_external_data=False).graph.initializer
    return {tensor.name: tuple(entry.value for entry in tensor.external_data) for tensor in tensors}


def test_equal_weights_of_several_domains_lie_in_the_common_file_once(tmp_path: Path) -> None:
    files = prunus.export(_model("wrn14_2", tmp_path / "m.prunus", method="feature"), tmp_path / "out")
    first, second = map(_places, files)
    assert (
        len([name for name, place in first.items() if place and second.get(name) == place]) >= 13
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
    with pytest.raises(BundleError, match="ONNX Runtime answers differently for 'a'"):
        prunus.export(model, tmp_path / "out")
    assert [path.name for path in (tmp_path / "out").iterdir()] == ["a.onnx"]
    assert (tmp_path / "out" / "a.onnx").read_text() == "an earlier one"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["m.prunus", "out"]
