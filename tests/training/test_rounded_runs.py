"""Runs that round to 8 bits in their last part: continued, taught, and judged."""

import json
import signal
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

import prunus
from prunus.checkpoints.checkpoint import read_checkpoint
from prunus.config import Recipe
from prunus.errors import TrainingInterrupted
from prunus.recipes import parse_recipe
from prunus.run_folder import RunFolder
from prunus.training.run import open_run, resume_run, start_run, teacher_recipe
from tests.makers.stopping import StopAt

pytestmark = pytest.mark.slow  # trains

MakeDomain = Callable[..., Path]


@pytest.fixture
def recipe(make_domain: MakeDomain) -> Recipe:
    """Two tiny domains, 3 epochs of 2 + 2 steps, the last of them rounded."""
    training = {"epochs": 3, "batch_size": 4, "lr": 0.05, "checkpoint_seconds": 1e-9, "quantize": "int8"}
    paths = [str(make_domain(name, train=4)) for name in ("one", "two")]
    backbone = {"name": "wrn14_2", "size": 16}
    return parse_recipe({"backbone": backbone, "domains": paths, "budget": 0.5, "training": training})


def _tensors(path: Path) -> dict[str, torch.Tensor]:
    return read_checkpoint(RunFolder(path).checkpoint).tensors


@pytest.mark.parametrize("step", [8, 9, 10])
def test_a_run_stopped_before_or_while_it_rounds_ends_the_same(recipe: Recipe, step: int, tmp_path: Path) -> None:
    start_run(recipe, tmp_path / "straight", device="cpu")
    with pytest.raises(TrainingInterrupted):
        start_run(recipe, tmp_path / "stopped", [StopAt(step, signal.SIGINT)], device="cpu")
    assert bool(_tensors(tmp_path / "stopped")["rounding/ranges_DL2"].any()) == (step > 8)
    resume_run(tmp_path / "stopped", device="cpu")
    ours, theirs = _tensors(tmp_path / "straight"), _tensors(tmp_path / "stopped")
    assert ours.keys() == theirs.keys()
    assert all(torch.equal(ours[name], theirs[name]) for name in ours)


def test_a_rounded_run_is_opened_measured_and_pruned_as_any_other(recipe: Recipe, tmp_path: Path) -> None:
    run = prunus.train(recipe, tmp_path / "run", device="cpu")
    assert json.loads((run / "recipe.json").read_text())["training"]["quantize"] == "int8"
    assert open_run(run, "cpu").net.rounding is None
    assert prunus.evaluate(run, device="cpu").budget_kept
    assert prunus.prune(run, tmp_path / "model.prunus").exists()


def test_only_epochs_that_round_can_be_the_best(recipe: Recipe, tmp_path: Path) -> None:
    training = recipe.training.model_copy(update={"keep": "best"})
    run = prunus.train(recipe.model_copy(update={"training": training}), tmp_path / "run", device="cpu")
    best = read_checkpoint(RunFolder(run).checkpoint).position.best
    assert best is not None
    assert best.epoch == 2


def test_a_teacher_does_not_round(recipe: Recipe) -> None:
    taught = recipe.model_copy(update={"teacher": "finetune"})
    assert teacher_recipe(taught).training.quantize is None


def test_a_recipe_that_does_not_round_does_not_mention_it(recipe: Recipe) -> None:
    plain = recipe.model_copy(update={"training": recipe.training.model_copy(update={"quantize": None})})
    assert "quantize" not in plain.model_dump_json()
