"""A trial is trained and measured once."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from prunus.comparison.trials import Trial
from prunus.training.settling import settled
from tests.makers.stand_in_trainer import StandInTrainer, plain_entry


@pytest.fixture
def trial(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Trial:
    StandInTrainer().install(monkeypatch)
    return Trial(plain_entry("bn"), tmp_path, "test", "cpu", use_cache=False)


def test_results_are_kept_with_their_recipe_and_training_time(trial: Trial, tmp_path: Path) -> None:
    assert trial.finished() is None
    trial.run([])
    content = json.loads((tmp_path / "bn" / "results.json").read_text())
    assert content["seconds"] == 2.5
    assert content["recipe"] == settled(trial.entry.recipe, [4000]).model_dump(mode="json")
    assert content["recipe"]["training"]["epochs"] == 15  # as it was trained
    assert content["split"] == "test"


def test_a_trial_is_finished_unless_its_recipe_or_split_changed(trial: Trial) -> None:
    trial.run([])
    done = trial.finished()
    assert done is not None
    assert done.method == "bn"
    other_seed = replace(trial.entry, recipe=trial.entry.recipe.model_copy(update={"seed": 1}))
    assert replace(trial, entry=other_seed).finished() is None
    assert replace(trial, split="validation").finished() is None
    longer = trial.entry.recipe.training.model_copy(update={"epochs": 16})
    other_length = replace(trial.entry, recipe=trial.entry.recipe.model_copy(update={"training": longer}))
    assert replace(trial, entry=other_length).finished() is None


@pytest.mark.parametrize("content", ['{"spli', "{}", "[]"])
def test_damaged_results_do_not_count(trial: Trial, content: str) -> None:
    trial.run([])
    trial.files.results.write_text(content)
    assert trial.finished() is None
