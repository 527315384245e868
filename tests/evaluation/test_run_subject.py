"""Runs are opened as the same thing to measure as their model files, with the frozen backbone beside them."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file

import prunus
from prunus.arrays import Floats
from prunus.backbone.zoo import load_backbone
from prunus.bundle.bundle import Bundle
from prunus.config import BackboneChoice
from prunus.errors import BackboneError
from prunus.evaluation.packing import pack_run
from prunus.evaluation.subject import open_subject
from prunus.probabilities import crop_probabilities
from prunus.run_folder import RunFolder
from prunus.training.run import TrainedRun


@pytest.mark.slow
def test_a_network_that_no_file_can_hold_is_measured_and_refused_by_prune(
    make_domain: Callable[..., Path], tmp_path: Path
) -> None:
    make_domain("data/birds", classes=("owl", "wren"), train=3)
    recipe = tmp_path / "recipe.toml"
    recipe.write_text(
        'domains = ["data/birds"]\nbudget = 0.5\n[backbone]\nname = "timm/test_efficientnet_ln"\nweights = "random"\n'
        "size = 32\n[training]\nepochs = 1\n"
    )
    run = prunus.train(prunus.load_recipe(recipe), tmp_path / "run", device="cpu")
    results = prunus.evaluate(run, device="cpu")
    assert results.model_bytes is None
    assert 0 < results.params_ratio <= 1.1
    with pytest.raises(
        BackboneError, match=r"layer '\S+' \(LayerNormAct2d\) is not among those of a model file's graph"
    ):
        prunus.prune(run, tmp_path / "m.prunus")
    assert not (tmp_path / "m.prunus").exists()


@pytest.fixture
def run(make_domain: Callable[..., Path], tmp_path: Path) -> Path:
    make_domain("data/birds", classes=("owl", "wren"), train=4)
    make_domain("data/signs", classes=("stop", "go", "yield"), train=4)
    domains = [str(tmp_path / "data" / name) for name in ("birds", "signs")]
    training = {"epochs": 1, "switch_lr": 0.01}
    recipe = {
        "preset": "paper",
        "backbone": "wrn14_2",
        "domains": domains,
        "method": "ba2",
        "budget": 0.5,
        "training": training,
    }
    return prunus.train(prunus.parse_recipe(recipe), tmp_path / "run", device="cpu")


@pytest.mark.slow
def test_a_run_and_its_file_are_the_same_subject(run: Path, tmp_path: Path) -> None:
    of_run = open_subject(run, "cpu")
    of_file = open_subject(prunus.prune(run, tmp_path / "m.prunus"), "cpu")
    assert of_run.costs == of_file.costs
    assert of_run.model_bytes == of_file.model_bytes == (tmp_path / "m.prunus").stat().st_size
    assert (of_run.steps, of_run.dense_bytes) == (of_file.steps, of_file.dense_bytes)
    assert of_run.steps[0] == of_run.steps[1] > 0
    assert dict(of_run.domains) == dict(of_file.domains)
    assert list(of_run.frozen) == ["birds", "signs"]
    assert dict(of_file.frozen) == {}
    entry = of_run.domains["signs"]
    side = entry.preprocess.resize
    images = np.random.default_rng(0).integers(0, 256, (2, 3, side, side), np.uint8)
    answers = [subject.classifier("signs")(images, entry.preprocess, 10) for subject in (of_run, of_file)]
    assert answers[0].shape == (2, 3)
    np.testing.assert_allclose(answers[0], answers[1], rtol=1e-3, atol=1e-5)


@pytest.mark.slow
def test_frozen_features_are_those_of_the_backbone_that_the_run_started_from(run: Path) -> None:
    subject = open_subject(run, "cpu")
    preprocess = subject.domains["birds"].preprocess
    images = np.random.default_rng(0).integers(0, 256, (2, 3, preprocess.resize, preprocess.resize), np.uint8)
    linear = load_file(RunFolder(run).frozen_features)
    network = load_backbone(BackboneChoice(name="wrn14_2")).network.eval()

    def logits(cut: Floats) -> Floats:
        with torch.no_grad():
            features = network(torch.from_numpy(cut)).numpy()
        answer: Floats = features @ linear["birds/weight"].numpy().T + linear["birds/bias"].numpy()
        return answer

    expected = crop_probabilities(logits, images, preprocess, 5)
    np.testing.assert_allclose(subject.frozen["birds"](images, preprocess, 5), expected, rtol=1e-3, atol=1e-5)


@pytest.mark.slow
def test_a_run_is_packed_once_and_not_serialised(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    packed = []

    def counting(opened: TrainedRun) -> Bundle:
        packed.append(opened)
        return pack_run(opened)

    def refuse(*arguments: object) -> bytes:
        raise AssertionError("serialised")

    monkeypatch.setattr("prunus.evaluation.run_subject.pack_run", counting)
    monkeypatch.setattr("prunus.bundle.file.save", refuse)
    assert open_subject(run, "cpu").model_bytes
    assert len(packed) == 1
