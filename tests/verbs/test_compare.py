"""Methods side by side: one table, the same in every format, and a comparison that continues where it stopped."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

import prunus
from prunus.config import Recipe, Sharing
from prunus.errors import BundleError, RecipeError, TrainingError, TrainingInterrupted, UnknownNameError
from prunus.measure.comparison import Comparison
from prunus.methods.table import METHODS
from prunus.recipes import load_recipe
from prunus.run_folder import RunFolder
from prunus.training.observers import Observer
from prunus.training.run import train_or_continue
from prunus.verbs.compare import compare
from tests.conftest import write_domain

pytestmark = pytest.mark.slow  # trains

SHARED = ("feature", "finetune", "bn", "union-0.5", "union-0.25", "taps", "taps-sparsity=0.5")
CHOSEN = ("bn", "union", "taps", "taps:sparsity=0.5")
SAVED_AT_THE_END = ("training.checkpoint_seconds=1e9",)  # and not after each step


@pytest.fixture(scope="module")
def recipe_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("recipe")
    write_domain(folder / "one", classes=("a", "b"), train=8, test=4, size=(16, 16))
    write_domain(folder / "two", classes=("c", "d", "e"), train=8, test=4, size=(16, 16))
    path = folder / "recipe.toml"
    path.write_text(
        'preset = "paper"\nbackbone = { name = "wrn14_2", size = 16 }\ndomains = ["one", "two"]\nmethod = "piggyback"\n'
        "[training]\nepochs = 1\nbatch_size = 8\nlr = 0.05\ncheckpoint_seconds = 1e-9\n"
    )
    return path


@pytest.fixture
def recipe(recipe_file: Path) -> Recipe:
    return load_recipe(recipe_file, SAVED_AT_THE_END)


def _compare(recipe: Recipe, out: Path, **more: object) -> Comparison:
    return compare(recipe, out, CHOSEN, (0.5, 0.25), device="cpu", **more)  # type: ignore[arg-type]


@pytest.fixture(scope="module")
def straight(recipe_file: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The table of a comparison that nothing stopped."""
    out = tmp_path_factory.mktemp("straight")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(out / "cache"))
        _compare(load_recipe(recipe_file), out / "runs")
    return out / "runs" / "comparison.json"


def _without_times(path: Path) -> object:
    content = json.loads(path.read_text())
    for row in content["rows"]:
        del row["seconds"]
    return content


@pytest.mark.slow
def test_every_method_of_the_table_is_trained_saved_opened_and_measured(recipe: Recipe, tmp_path: Path) -> None:
    found = compare(recipe, tmp_path / "all", budgets=(0.5,), device="cpu")
    rows = {row.method: row for row in found.rows}
    assert list(rows) == list(METHODS)
    assert all(0 <= accuracy <= 1 for row in rows.values() for accuracy in row.accuracies.values())
    assert rows["finetune"].params_ratio == 2.0
    assert rows["feature"].params_ratio == rows["feature"].macs_ratio == 1.0
    assert rows["piggyback"].params_ratio == pytest.approx(1 + 2 / 32, rel=1e-3)
    assert {name for name, row in rows.items() if row.budget} == {n for n, m in METHODS.items() if m.has_budget}
    with pytest.raises(BundleError, match="method learns more"):
        prunus.prune(tmp_path / "all" / "taps", tmp_path / "m.prunus")
    assert prunus.prune(tmp_path / "all" / "bn", tmp_path / "m.prunus").exists()


def test_scores_follow_from_the_accuracies_and_costs_of_the_table(recipe: Recipe, tmp_path: Path) -> None:
    found = compare(recipe, tmp_path / "out", ("bn",), (0.5,), device="cpu")
    rows = {row.name: row for row in found.rows}
    assert list(rows) == ["feature", "bn", "finetune"]

    def score(name: str) -> float:
        total = 0.0
        for domain in ("one", "two"):
            error, largest = 1 - rows[name].accuracies[domain], 2 * (1 - rows["finetune"].accuracies[domain])
            total += 1000 * (max(0.0, largest - error) / largest) ** 2 if largest else 1000 * (error == 0)
        return total

    for name, row in rows.items():
        assert row.scores is not None
        assert row.scores.s_o is not None
        assert row.scores.s_p is not None
        assert row.scores.s == pytest.approx(score(name))
        assert row.scores.s_o == pytest.approx(score(name) / row.macs_ratio)
        assert row.scores.s_p == pytest.approx(score(name) / row.params_ratio)
        product = row.scores.s_o * row.scores.s_p
        assert row.scores.s_e == pytest.approx(product / score("feature") ** 2 if score("feature") else None)


class _Stop(Observer):
    """Presses Ctrl-C at a step."""

    def __init__(self, step: int) -> None:
        self.step = step

    def stepped(self, step: int, epoch: int) -> None:
        if step == self.step:
            os.kill(os.getpid(), signal.SIGINT)


def test_a_stopped_comparison_goes_on_with_the_method_it_was_at(
    recipe_file: Path, straight: Path, tmp_path: Path
) -> None:
    recipe = load_recipe(recipe_file)
    trained: list[str] = []

    def stopping(title: str) -> Sequence[Observer]:
        trained.append(title.split()[1])
        return [_Stop(2)] if "union-0.5" in title else []

    with pytest.raises(TrainingInterrupted, match=r"at union-0.5; finished work is saved: continue with"):
        _compare(recipe, tmp_path / "stopped", observers=stopping)
    assert trained[-1] == "union-0.5"
    done = {name: RunFolder(tmp_path / "stopped" / name).checkpoint.stat().st_mtime_ns for name in trained[:-1]}
    steps: dict[str, int] = {}

    class Count(Observer):
        def __init__(self, name: str) -> None:
            self.name = name

        def started(self, step: int, total_steps: int) -> None:
            steps[self.name] = step

    _compare(recipe, tmp_path / "stopped", observers=lambda title: [Count(title.split()[1])])
    assert set(steps) == set(SHARED) - set(trained[:-1])  # what was done is not trained again
    assert {name: step for name, step in steps.items() if step} == {"union-0.5": 2}
    assert all(RunFolder(tmp_path / "stopped" / n).checkpoint.stat().st_mtime_ns == t for n, t in done.items())
    assert _without_times(tmp_path / "stopped" / "comparison.json") == _without_times(straight)


@pytest.mark.slow
def test_a_comparison_that_was_killed_ends_with_the_same_table(
    recipe_file: Path, straight: Path, tmp_path: Path
) -> None:
    command = [sys.executable, "-c", "from prunus.cli.app import main; main()", "compare", str(recipe_file)]
    options = ["--methods", ",".join(CHOSEN), "--budgets", "0.5,0.25", "--out", str(tmp_path / "killed")]
    process = subprocess.Popen([*command, *options, "--device", "cpu"], stdout=subprocess.DEVNULL)
    while not (tmp_path / "killed" / "union-0.5" / "checkpoint.safetensors").exists() and process.poll() is None:
        time.sleep(0.02)
    process.kill()
    process.wait()
    assert not (tmp_path / "killed" / "taps").exists()
    _compare(load_recipe(recipe_file), tmp_path / "killed")
    assert _without_times(tmp_path / "killed" / "comparison.json") == _without_times(straight)


def test_seeds_in_two_processes_become_means_and_are_not_trained_again(recipe: Recipe, tmp_path: Path) -> None:
    out = tmp_path / "out"
    found = compare(recipe, out, ("feature",), (0.5,), device="cpu", seeds=(0, 1), jobs=2)
    assert [(row.name, row.seeds) for row in found.rows] == [("feature", (0, 1)), ("finetune", (0, 1))]
    measured = [json.loads((out / name / "results.json").read_text()) for name in ("finetune", "finetune-seed1")]
    assert [results["seed"] for results in measured] == [0, 1]
    means = [results["mean_accuracy"] for results in measured]
    assert found.rows[1].mean_accuracy == pytest.approx(np.mean(means))
    assert found.rows[1].spread is not None
    assert found.rows[1].spread.mean_accuracy == pytest.approx(np.std(means, ddof=1))

    def refuse(title: str) -> Sequence[Observer]:
        raise AssertionError(title)

    assert compare(recipe, out, ("feature",), (0.5,), refuse, device="cpu", seeds=(0, 1)) == found


def test_another_recipe_in_the_same_folder_is_refused(recipe: Recipe, tmp_path: Path) -> None:
    compare(recipe, tmp_path / "out", ("feature",), (0.5,), device="cpu")
    with pytest.raises(TrainingError, match="holds a run of another recipe"):
        compare(recipe.model_copy(update={"seed": 1}), tmp_path / "out", ("feature",), (0.5,), device="cpu")


def test_a_method_that_cannot_be_trained_does_not_keep_the_others_from_it(
    recipe: Recipe, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def failing(recipe: Recipe, out: Path, *more: object) -> None:
        if out.name == "bn":
            raise TrainingError("the loss is not a number")
        train_or_continue(recipe, out, *more)  # type: ignore[arg-type]

    monkeypatch.setattr("prunus.comparison.trials.train_or_continue", failing)
    found = compare(recipe, tmp_path / "out", ("bn", "piggyback"), (0.5,), device="cpu")
    assert found.failed == {"bn": "the loss is not a number"}
    assert [row.name for row in found.rows] == ["feature", "finetune", "piggyback"]


def test_damaged_results_are_measured_again_and_a_later_command_adds_rows(recipe: Recipe, tmp_path: Path) -> None:
    first = compare(recipe, tmp_path / "out", ("feature",), (0.5,), device="cpu")
    (tmp_path / "out" / "feature" / "results.json").write_text('{"spli')
    second = compare(recipe, tmp_path / "out", ("feature", "bn"), (0.5,), device="cpu")
    assert [row.name for row in second.rows] == ["feature", "bn", "finetune"]
    assert second.rows[0].accuracies == first.rows[0].accuracies


def test_what_cannot_be_measured_is_refused_before_anything_is_trained(recipe: Recipe, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(RecipeError, match="file is a file; name a folder"):
        compare(recipe, tmp_path / "file", "bn", device="cpu")
    with pytest.raises(UnknownNameError, match="unknown split 'tset'"):
        compare(recipe, tmp_path / "out", "bn", device="cpu", split="tset")
    soft = recipe.model_copy(update={"sharing": Sharing(loss="soft_overlap"), "method": None})
    with pytest.raises(RecipeError, match="as in ba2:sharing=soft_overlap"):
        compare(soft, tmp_path / "out", "bn", device="cpu")
    assert not (tmp_path / "out").exists()
    validated = compare(recipe, tmp_path / "out", "feature", device="cpu", split="validation")
    assert validated.split == "validation"
