"""Sweeps: every combination is trained once, also if the command was killed in between."""

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import pytest

from prunus.config import Recipe
from prunus.errors import RecipeError, TrainingError
from prunus.measure.comparison import Sweep
from prunus.recipes import load_recipe
from prunus.run_folder import RunFolder
from prunus.training.observers import Observer
from prunus.training.run import train_or_continue
from prunus.verbs.sweep import sweep

SECONDS_TO_START = 300  # importing torch and Ray on a busy machine


@pytest.fixture
def recipe_file(make_domain: Callable[..., Path], tmp_path: Path) -> Path:
    make_domain("one", classes=("a", "b"), train=4, test=2, size=(16, 16))
    make_domain("two", classes=("c", "d", "e"), train=4, test=2, size=(16, 16))
    path = tmp_path / "recipe.toml"
    path.write_text(
        'domains = ["one", "two"]\nmethod = "union"\n[backbone]\nname = "wrn14_2"\nsize = 16\n'
        "[training]\nepochs = 1\nbatch_size = 8\nlr = 0.05\n"
    )
    return path


@pytest.fixture
def recipe(recipe_file: Path) -> Recipe:
    return load_recipe(recipe_file)


@pytest.fixture
def without_ray(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda _name: None)


def _refuse(title: str) -> Sequence[Observer]:
    raise AssertionError(f"{title} is trained again")


@pytest.mark.slow
@pytest.mark.usefixtures("without_ray")
def test_without_ray_every_combination_is_trained_once_one_after_the_other(recipe: Recipe, tmp_path: Path) -> None:
    notes: list[str] = []
    out = tmp_path / "out"
    found = sweep(recipe, out, ("bn",), seeds=(0, 1), grid=("training.lr=0.01,0.1",), note=notes.append, device="cpu")
    assert [(row.name, row.seeds) for row in found.rows] == [
        ("bn-training.lr=0.01", (0, 1)),
        ("bn-training.lr=0.1", (0, 1)),
    ]
    measured = [json.loads((out / f"{found.rows[1].name}{end}" / "results.json").read_text()) for end in ("", "-seed1")]
    means = [results["mean_accuracy"] for results in measured]
    assert [results["recipe"]["training"]["lr"] for results in measured] == [0.1, 0.1]
    assert found.rows[1].mean_accuracy == pytest.approx(np.mean(means))
    assert found.rows[1].spread is not None
    assert found.rows[1].spread.mean_accuracy == pytest.approx(np.std(means, ddof=1))
    assert len(notes) == 1
    assert Sweep.model_validate_json((out / "sweep.json").read_bytes()) == found
    assert (out / "pareto.svg").stat().st_size > 1000
    assert found.split == "validation"  # of a grid, settings are chosen
    again = sweep(recipe, out, ("bn",), seeds=(0, 1), grid=("training.lr=0.01,0.1",), observers=_refuse, device="cpu")
    assert again == found


@pytest.mark.slow
@pytest.mark.usefixtures("without_ray")
def test_a_trial_that_fails_is_listed_and_the_others_are_trained(
    recipe: Recipe, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def failing(recipe: Recipe, out: Path, *more: object) -> None:
        if out.name == "bn":
            raise TrainingError("the loss is not a number")
        train_or_continue(recipe, out, *more)  # type: ignore[arg-type]

    monkeypatch.setattr("prunus.comparison.trials.train_or_continue", failing)
    found = sweep(recipe, tmp_path / "out", ("bn", "feature"), device="cpu")
    assert found.failed == {"bn": "the loss is not a number"}
    assert [row.name for row in found.rows] == ["feature"]
    assert found.split == "test"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"jobs": 0}, "jobs must be at least 1"),
        ({"grid": ("seed=1",)}, "use the argument seeds"),
        ({"budgets": (2.0,)}, "budget"),
    ],
)
def test_what_cannot_be_swept_is_refused_before_anything_is_trained(
    recipe: Recipe, tmp_path: Path, options: dict[str, object], message: str
) -> None:
    with pytest.raises(RecipeError, match=message):
        sweep(recipe, tmp_path / "out", observers=_refuse, **options)  # type: ignore[arg-type]
    (tmp_path / "file").write_text("")
    with pytest.raises(RecipeError, match="is a file; name a folder"):
        sweep(recipe, tmp_path / "file")
    assert not (tmp_path / "out").exists()


def _identity(file: Path) -> tuple[int, int]:
    return file.stat().st_ino, file.stat().st_mtime_ns


def _finished(out: Path) -> dict[Path, tuple[int, int]]:
    runs = [RunFolder(path.parent) for path in out.glob("*/results.json")]
    return {file: _identity(file) for run in runs for file in (run.results, run.checkpoint, run.log)}


@pytest.mark.slow
def test_six_trials_on_ray_end_and_after_a_kill_finished_ones_are_not_run_again(
    recipe_file: Path, tmp_path: Path
) -> None:
    pytest.importorskip("ray", reason="needs the extra sweep")
    out = tmp_path / "out"
    command = [sys.executable, "-m", "prunus", "sweep", str(recipe_file), "--budgets", "0.5,0.25", "--seeds", "0,1,2"]
    command += ["--out", "out", "--device", "cpu", "--jobs"]
    process = subprocess.Popen([*command, "1"], cwd=tmp_path, stdout=subprocess.DEVNULL, start_new_session=True)
    deadline = time.monotonic() + SECONDS_TO_START
    while len(list(out.glob("*/results.json"))) < 2 and process.poll() is None and time.monotonic() < deadline:
        time.sleep(0.02)
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    before = _finished(out)
    assert 2 <= len(before) // 3 < 6
    done = subprocess.run(
        [*command, "2"], cwd=tmp_path, capture_output=True, text=True, timeout=SECONDS_TO_START, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert {file: _identity(file) for file in before} == before
    assert done.stderr == ""
    noise = [line for line in done.stdout.splitlines() if "ray" in line.lower()]
    assert noise == []
    assert not (out / ".ray").exists()
    found = Sweep.model_validate_json((out / "sweep.json").read_bytes())
    assert [(row.name, row.seeds) for row in found.rows] == [("union-0.5", (0, 1, 2)), ("union-0.25", (0, 1, 2))]
    assert found.failed == {}


def test_without_a_cluster_at_the_address_nothing_is_written(recipe: Recipe, tmp_path: Path) -> None:
    pytest.importorskip("ray", reason="needs the extra sweep")
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        address = "{}:{}".format(*server.getsockname())  # nothing listens there
    with pytest.raises(TrainingError, match=f"no Ray cluster at '{address}': .*ray start --head"):
        sweep(recipe, tmp_path / "out", address=address, observers=_refuse, device="cpu")
    assert not (tmp_path / "out").exists()
