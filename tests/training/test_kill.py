"""A run that is killed, stopped, extended or started from another one ends where it must, bit for bit."""

import json
import multiprocessing
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from typer.testing import CliRunner

from prunus.checkpoints.checkpoint import read_checkpoint
from prunus.cli.app import app
from prunus.config import Recipe
from prunus.errors import TrainingInterrupted
from prunus.recipes import load_recipe, parse_recipe
from prunus.run_folder import RunFolder
from prunus.training.run import resume_run, start_run
from tests.conftest import write_domain
from tests.makers.killed_training import WRITING, Kill
from tests.makers.stopping import StopAt

pytestmark = pytest.mark.slow  # trains

ROOT = Path(__file__).parents[2]
KILLS = 20
EPOCHS = 32


def write_recipe(folder: Path, **training: object) -> Path:
    """Write two tiny domains and a recipe for them, of 4 steps an epoch."""
    domains = [str(write_domain(folder / name, train=4, validation=2)) for name in ("one", "two")]
    backbone = {"name": "wrn14_2", "size": 16, "resize": 18}
    settings = {"batch_size": 4, "lr": 0.05, **training}
    recipe = parse_recipe(
        {"preset": "paper", "backbone": backbone, "domains": domains, "budget": 0.5, "training": settings}
    )
    file = folder / "recipe.json"
    file.write_text(recipe.model_dump_json())
    return file


def train(*arguments: object) -> None:
    """Run `prunus train` in this process."""
    result = CliRunner().invoke(app, ["train", "--device", "cpu", *map(str, arguments)])
    assert result.exit_code == 0, result.exception


def stop(recipe: Recipe, path: Path, step: int) -> None:
    """Start a run and stop it after a step."""
    with pytest.raises(TrainingInterrupted):
        start_run(recipe, path, [StopAt(step)], "cpu")


def differences(first: Path, second: Path, prefix: str = "") -> list[str]:
    """Return the tensors in which two checkpoints, or the last ones of two runs, differ."""
    files = [RunFolder(path).checkpoint if path.is_dir() else path for path in (first, second)]
    ours, theirs = (read_checkpoint(file).tensors for file in files)
    names = {name for name in ours.keys() | theirs.keys() if name.startswith(prefix)}
    return [n for n in names if n not in ours or n not in theirs or not torch.equal(ours[n], theirs[n])]


def test_a_run_that_is_killed_20_times_ends_with_the_same_weights_bit_for_bit(tmp_path: Path) -> None:
    rates = {"schedule": "cosine", "warmup_epochs": 2.0, "switch_lr": 1e-3, "dual_rate": 5.0}
    file = write_recipe(tmp_path, epochs=EPOCHS, keep="best", checkpoint_seconds=0.02, **rates)
    command = [sys.executable, "-m", "tests.makers.killed_training", str(file), str(tmp_path), str(KILLS), "0"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    kills = [Kill(**kill) for kill in json.loads(done.stdout)]
    assert [kill.was_killed for kill in kills] == [True] * KILLS
    in_writing = [kill for kill in kills if kill.event in WRITING[:2]]
    assert len(in_writing) >= 5
    assert all(kill.left_partial_file for kill in in_writing)
    straight, killed = RunFolder(tmp_path / "straight"), RunFolder(tmp_path / "killed")
    assert differences(straight.checkpoint, killed.checkpoint) == []
    assert differences(straight.best, killed.best) == []
    positions = [read_checkpoint(folder.checkpoint).position for folder in (straight, killed)]
    assert positions[0] == positions[1]
    assert positions[0].step == positions[0].total_steps == 4 * EPOCHS
    assert positions[0].best is not None
    logs = [[(entry.step, entry.domains) for entry in folder.epochs()] for folder in (straight, killed)]
    assert logs[0] == logs[1]
    assert len(logs[0]) == EPOCHS
    assert list(killed.path.glob(".*.tmp")) == []


def test_policies_in_workers_do_not_change_how_a_stopped_run_ends(tmp_path: Path) -> None:
    file = write_recipe(tmp_path, epochs=2, augment=["rand_augment", "random_resized_crop"], workers=0)
    train(file, "--out", tmp_path / "straight")
    stop(load_recipe(file, ["training.workers=2"]), tmp_path / "stopped", 3)
    assert multiprocessing.active_children() == []
    train("--resume", tmp_path / "stopped", "--set", "training.workers=1")
    assert multiprocessing.active_children() == []
    assert differences(tmp_path / "straight", tmp_path / "stopped") == []
    train(file, "--out", tmp_path / "plain", "--set", "training.augment=[]")
    assert differences(tmp_path / "straight", tmp_path / "plain", "net/") != []


def test_a_run_that_is_extended_twice_over_ends_the_same(tmp_path: Path) -> None:
    file = write_recipe(tmp_path, epochs=2, schedule="cosine")
    train(file, "--out", tmp_path / "first")
    shutil.copytree(tmp_path / "first", tmp_path / "second")
    for name in ("first", "second"):
        train("--resume", tmp_path / name, "--set", "training.epochs=4")
        assert read_checkpoint(RunFolder(tmp_path / name).checkpoint).position.step == 16
        assert load_recipe(RunFolder(tmp_path / name).recipe).training.epochs == 4
        assert [entry.epoch for entry in RunFolder(tmp_path / name).epochs()] == [0, 1, 2, 3]
    assert differences(tmp_path / "first", tmp_path / "second") == []


def test_an_extension_that_is_interrupted_ends_as_if_it_had_not_been(tmp_path: Path) -> None:
    file = write_recipe(tmp_path, epochs=2, schedule="cosine")
    train(file, "--out", tmp_path / "straight")
    shutil.copytree(tmp_path / "straight", tmp_path / "stopped")
    train("--resume", tmp_path / "straight", "--set", "training.epochs=3")
    longer = load_recipe(tmp_path / "stopped" / "recipe.json", ["training.epochs=3"])
    with pytest.raises(TrainingInterrupted):
        resume_run(tmp_path / "stopped", [StopAt(10)], "cpu", longer)
    train("--resume", tmp_path / "stopped")
    assert differences(tmp_path / "straight", tmp_path / "stopped") == []


def test_at_a_constant_rate_an_extended_run_equals_one_that_was_planned_longer(tmp_path: Path) -> None:
    file = write_recipe(tmp_path, epochs=2, schedule="constant")
    train(file, "--out", tmp_path / "extended")
    train("--resume", tmp_path / "extended", "--set", "training.epochs=3")
    train(file, "--out", tmp_path / "planned", "--set", "training.epochs=3")
    assert differences(tmp_path / "extended", tmp_path / "planned") == []


def test_a_run_that_starts_from_another_one_twice_ends_the_same(tmp_path: Path) -> None:
    file = write_recipe(tmp_path, epochs=2)
    train(file, "--out", tmp_path / "origin")
    for name in ("first", "second"):
        train(file, "--out", tmp_path / name, "--init", tmp_path / "origin", "--set", "seed=5")
    train(file, "--out", tmp_path / "alone", "--set", "seed=5")
    assert differences(tmp_path / "first", tmp_path / "second") == []
    assert differences(tmp_path / "first", tmp_path / "alone", "net/") != []


def test_a_run_begins_with_the_network_of_its_origin_and_then_no_longer_needs_it(tmp_path: Path) -> None:
    file = write_recipe(tmp_path, epochs=2, checkpoint_seconds=1e9)
    train(file, "--out", tmp_path / "origin")
    changes = [f"init={json.dumps(str(tmp_path / 'origin'))}", "seed=5"]
    recipe = load_recipe(file, changes)
    train(file, "--out", tmp_path / "straight", "--init", tmp_path / "origin", "--set", "seed=5")
    frozen = load_recipe(file, [*changes, "training.lr=1e-30", "training.switch_lr=1e-30"])
    stop(frozen, tmp_path / "still", 1)
    learned = [name for name in differences(tmp_path / "origin", tmp_path / "still", "net/") if "running" not in name]
    assert [name for name in learned if "num_batches" not in name] == []
    stop(recipe, tmp_path / "stopped", 3)
    shutil.rmtree(tmp_path / "origin")
    train("--resume", tmp_path / "stopped")
    assert differences(tmp_path / "straight", tmp_path / "stopped") == []


def test_a_killed_run_with_damaged_files_names_them_and_ends_the_same(tmp_path: Path) -> None:
    result = tmp_path / "result.json"
    command = [sys.executable, "-m", "benchmarks.damaged_runs", "--kills", "6", "--seeds", "1", "--json", str(result)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    (run,) = json.loads(result.read_text())["runs"]
    assert [damage["target"] for damage in run["damages"]] == ["checkpoint", "cache"]
    assert "training continues from the checkpoint before it, at step" in run["damages"][0]["said"]
    assert "in the cache were damaged and have been decoded again" in run["damages"][1]["said"]
    assert run["differences"] == run["best_differences"] == []
