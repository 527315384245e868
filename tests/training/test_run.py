"""Runs: begun, interrupted, killed, resumed, refused; a run that goes on ends where it would have ended."""

import json
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from prunus.config import Recipe, parse_recipe
from prunus.errors import RecipeError, TrainingError, TrainingInterrupted, UnknownNameError
from prunus.training.checkpoint import read_checkpoint
from prunus.training.observers import EpochReport, Observer
from prunus.training.run import RunFolder, check_recipe, open_run, resume_run, start_run

MakeDomain = Callable[..., Path]


@pytest.fixture
def recipe(make_domain: MakeDomain, tmp_path: Path) -> Recipe:
    """Two tiny domains, 2 epochs of 2 + 2 steps."""
    paths = [str(make_domain(name, train=4)) for name in ("one", "two")]
    training = {"epochs": 2, "batch_size": 4, "lr": 0.05, "checkpoint_seconds": 1e-9}
    return parse_recipe({"backbone": "wrn14_2", "domains": paths, "budget": 0.5, "training": training})


def _tensors(path: Path) -> dict[str, torch.Tensor]:
    return read_checkpoint(RunFolder(path).checkpoint).tensors


def _same(first: Path, second: Path) -> bool:
    ours, theirs = _tensors(first), _tensors(second)
    return ours.keys() == theirs.keys() and all(torch.equal(ours[name], theirs[name]) for name in ours)


class _StopAt(Observer):
    """Sends a signal to this process after a step, as Ctrl-C would."""

    def __init__(self, step: int, number: signal.Signals) -> None:
        self._step, self._number = step, number

    def stepped(self, step: int, epoch: int) -> None:
        """Send it."""
        if step == self._step:
            os.kill(os.getpid(), self._number)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupted_run_saves_says_how_to_go_on_and_ends_the_same(
    recipe: Recipe, tmp_path: Path, number: signal.Signals
) -> None:
    start_run(recipe, tmp_path / "straight")
    with pytest.raises(TrainingInterrupted, match=r"saved at step 3 of 8; go on with: prunus train --resume"):
        start_run(recipe, tmp_path / "stopped", [_StopAt(3, number)])
    assert read_checkpoint(RunFolder(tmp_path / "stopped").checkpoint).step == 3
    resume_run(tmp_path / "stopped")
    assert _same(tmp_path / "straight", tmp_path / "stopped")
    logs = [
        [json.loads(line) for line in RunFolder(tmp_path / n).log.read_text().splitlines()]
        for n in ("straight", "stopped")
    ]
    for entry in [*logs[0], *logs[1]]:
        del entry["seconds"]
    assert logs[0] == logs[1]
    assert [entry["epoch"] for entry in logs[0]] == [0, 1]


@pytest.mark.slow
def test_a_run_killed_at_any_step_and_resumed_ends_with_the_same_weights_bit_for_bit(
    recipe: Recipe, tmp_path: Path
) -> None:
    recipe = recipe.model_copy(update={"training": recipe.training.model_copy(update={"epochs": 20})})
    start_run(recipe, tmp_path / "straight", device="cpu")
    file = tmp_path / "recipe.json"
    file.write_text(recipe.model_dump_json())
    killed = tmp_path / "killed"
    command = [sys.executable, "-c", "from prunus.cli.app import main; main()", "train", "--device", "cpu"]
    kills, rng = 0, random.Random(0)
    arguments = [str(file), "--out", str(killed)]
    for _ in range(30):
        process = subprocess.Popen([*command, *arguments], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        began = time.monotonic()
        while (
            not (killed / "checkpoint.safetensors").exists()
            and process.poll() is None
            and time.monotonic() - began < 60
        ):
            time.sleep(0.01)
        before = _step(killed)
        while _step(killed) == before and process.poll() is None:
            time.sleep(0.005)
        time.sleep(rng.random() * 0.3)
        process.send_signal(signal.SIGKILL)
        kills += process.wait() == -signal.SIGKILL
        arguments = ["--resume", str(killed)]
        if kills >= 3 or _step(killed) == 80:
            break
    assert kills >= 1
    assert subprocess.run([*command, *arguments], capture_output=True, check=False).returncode == 0
    assert _same(tmp_path / "straight", killed)


def _step(path: Path) -> int:
    file = RunFolder(path).checkpoint
    return read_checkpoint(file).step if file.exists() else -1


def test_the_same_recipe_gives_the_same_weights_and_another_seed_others(recipe: Recipe, tmp_path: Path) -> None:
    start_run(recipe, tmp_path / "a")
    start_run(recipe, tmp_path / "b")
    start_run(recipe.model_copy(update={"seed": 1}), tmp_path / "c")
    assert _same(tmp_path / "a", tmp_path / "b")
    assert not _same(tmp_path / "a", tmp_path / "c")


@pytest.mark.parametrize("strategy", ["round_robin", "alternate", "mixed", "individual"])
def test_every_strategy_trains_and_reports_every_domain(recipe: Recipe, tmp_path: Path, strategy: str) -> None:
    training = recipe.training.model_copy(update={"strategy": strategy})
    method = "ba2" if strategy == "individual" else "budget_aware"
    start_run(recipe.model_copy(update={"training": training, "method": method}), tmp_path / "run")
    entries = [json.loads(line) for line in RunFolder(tmp_path / "run").log.read_text().splitlines()]
    assert {name for entry in entries for name in entry["domains"]} == {"one", "two"}
    assert open_run(tmp_path / "run").checkpoint.step == entries[-1]["step"]
    assert all(0 <= d["validation_accuracy"] <= 1 for entry in entries for d in entry["domains"].values())


def test_training_on_train_and_validation_holds_nothing_out(recipe: Recipe, tmp_path: Path) -> None:
    seen: list[EpochReport] = []

    class Watch(Observer):
        def epoch_ended(self, report: EpochReport) -> None:
            seen.append(report)

    training = recipe.training.model_copy(update={"splits": "train+validation"})
    start_run(recipe.model_copy(update={"training": training}), tmp_path / "run", [Watch()])
    assert all(p.validation_accuracy is None for report in seen for p in report.domains.values())


def test_a_loss_that_is_not_a_number_stops_and_keeps_the_last_good_state(recipe: Recipe, tmp_path: Path) -> None:
    training = recipe.training.model_copy(update={"lr": 1e30, "epochs": 5})
    with pytest.raises(TrainingError, match="is not a number at step"):
        start_run(recipe.model_copy(update={"training": training}), tmp_path / "run")
    saved = _tensors(tmp_path / "run")
    assert bool(torch.isfinite(saved["tally"]).all())


def test_a_folder_with_a_run_is_never_overwritten(recipe: Recipe, tmp_path: Path) -> None:
    start_run(recipe, tmp_path / "run")
    before = (tmp_path / "run" / "checkpoint.safetensors").read_bytes()
    with pytest.raises(TrainingError, match="already holds a run"):
        start_run(recipe, tmp_path / "run")
    assert (tmp_path / "run" / "checkpoint.safetensors").read_bytes() == before


def test_a_checkpoint_of_another_recipe_is_refused_and_the_difference_named(recipe: Recipe, tmp_path: Path) -> None:
    start_run(recipe, tmp_path / "run")
    with pytest.raises(TrainingError, match=r"another recipe \(budget: 0.5 -> 0.1\)"):
        resume_run(tmp_path / "run", recipe=recipe.model_copy(update={"budget": 0.1}))


def test_changed_data_is_noticed_on_resume(recipe: Recipe, tmp_path: Path) -> None:
    start_run(recipe, tmp_path / "run")
    next((tmp_path / "one" / "train").rglob("*.png")).unlink()
    with pytest.raises(TrainingError, match="data of domain 'one' is not the one"):
        resume_run(tmp_path / "run")


def test_a_damaged_checkpoint_is_refused(recipe: Recipe, tmp_path: Path) -> None:
    start_run(recipe, tmp_path / "run")
    file = RunFolder(tmp_path / "run").checkpoint
    file.write_bytes(file.read_bytes()[:-10])
    with pytest.raises(TrainingError, match="is not a readable checkpoint"):
        open_run(tmp_path / "run")


def test_a_full_disk_leaves_the_last_checkpoint_readable(
    recipe: Recipe, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(TrainingInterrupted):
        start_run(recipe, tmp_path / "run", [_StopAt(3, signal.SIGINT)])

    def full(_descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", full)
        with pytest.raises(ValueError, match="No space left on device; nothing already saved was changed"):
            resume_run(tmp_path / "run")
    assert read_checkpoint(RunFolder(tmp_path / "run").checkpoint).step == 3
    resume_run(tmp_path / "run")
    start_run(recipe, tmp_path / "straight")
    assert _same(tmp_path / "straight", tmp_path / "run")


def test_contradictions_and_unknown_names_are_refused_before_any_work(recipe: Recipe) -> None:
    alone = recipe.training.model_copy(update={"strategy": "individual"})
    with pytest.raises(RecipeError, match="shares nothing"):
        check_recipe(recipe.model_copy(update={"training": alone}))
    content = json.loads(recipe.model_dump_json()) | {"method": "ba2", "sharing": {"loss": "jaccard"}}
    with pytest.raises(RecipeError, match="has no sharing loss"):
        check_recipe(parse_recipe(content))
    with pytest.raises(UnknownNameError, match="unknown method 'ba3'"):
        check_recipe(recipe.model_copy(update={"method": "ba3"}))


def test_an_unusable_device_is_refused(recipe: Recipe, tmp_path: Path) -> None:
    with pytest.raises(TrainingError, match="'gpu' cannot be used"):
        start_run(recipe, tmp_path / "run", device="gpu")
