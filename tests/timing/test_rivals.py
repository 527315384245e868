"""The engines that a model file is compared with."""

import sys

import numpy as np
import pytest
import torch

from prunus.arrays import Floats
from prunus.backbone.zoo import load_backbone
from prunus.bundle.bundle import Bundle
from prunus.bundle.manifest import DomainEntry
from prunus.config import BackboneChoice
from prunus.lowering.pack import pack
from prunus.methods.table import adapt
from prunus.runtime.numpy_engine import NumpyEngine
from prunus.timing.rivals import Rivals, torch_threads


@pytest.fixture(scope="module")
def bundle() -> Bundle:
    backbone = load_backbone(BackboneChoice(name="wrn14_2"))
    net = adapt(backbone, {"birds": ("owl", "wren"), "signs": ("stop", "go", "yield")}, "union").eval()
    entries = {name: DomainEntry(classes=each, preprocess=backbone.preprocess) for name, each in net.classes.items()}
    return pack(net, backbone, entries, {})


def _images(bundle: Bundle) -> Floats:
    size = bundle.manifest.image_size
    return np.random.default_rng(0).standard_normal((2, 3, size, size)).astype(np.float32)


def test_a_pruned_onnx_model_answers_as_the_model_file_does(bundle: Bundle) -> None:
    rivals = Rivals(bundle, ["signs"])
    runs = rivals.runs(threads=1)
    assert set(runs) == {("ONNX pruned", "signs"), ("ONNX dense", None), ("PyTorch dense", None)}
    assert rivals.versions.keys() == {"numpy", "onnxruntime", "torch"}
    assert rivals.missing == {}
    images = _images(bundle)
    answers = runs["ONNX pruned", "signs"](images)
    assert isinstance(answers, list)
    expected = NumpyEngine(bundle).logits(images, "signs")
    np.testing.assert_allclose(answers[0], expected, rtol=1e-3, atol=1e-4)


def test_the_dense_networks_have_the_first_domains_number_of_classes(bundle: Bundle) -> None:
    runs = Rivals(bundle, ["signs"]).runs(threads=1)
    dense, torch_dense = (runs[engine, None](_images(bundle)) for engine in ("ONNX dense", "PyTorch dense"))
    assert isinstance(dense, list)
    assert isinstance(torch_dense, torch.Tensor)
    assert dense[0].shape == tuple(torch_dense.shape) == (2, 2)


def test_what_is_not_installed_is_missing_with_the_reason(bundle: Bundle, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "onnxruntime", None)
    rivals = Rivals(bundle, ["birds"])
    assert set(rivals.missing) == {"ONNX pruned", "ONNX dense"}
    command = "pip install 'prunus[onnx]' (in a checkout: pip install '.[onnx]')"
    message = f"onnxruntime is not installed; install it with: {command}"
    assert set(rivals.missing.values()) == {message}
    assert set(rivals.runs(threads=1)) == {("PyTorch dense", None)}


def test_torch_gets_its_number_of_threads_back() -> None:
    before = torch.get_num_threads()
    with pytest.raises(RuntimeError), torch_threads(before + 1):
        assert torch.get_num_threads() == before + 1
        raise RuntimeError
    assert torch.get_num_threads() == before
