"""Trials are trained once, required rows first, and a failure does not stop the others."""

import json
from collections.abc import Sequence
from pathlib import Path

import pytest

from prunus.comparison.plan import Entry
from prunus.comparison.trials import Trials
from prunus.config import Recipe
from prunus.errors import TrainingError, TrainingInterrupted
from prunus.evaluation.subject import Subject
from prunus.measure.cost import CostReport
from prunus.measure.evaluation import Evaluation
from prunus.probabilities import Classifier
from prunus.recipes import parse_recipe
from prunus.run_folder import RunFolder
from prunus.training.observers import Observer
from tests.makers.run_folders import results

LOG = '{"epoch": 0, "step": 4, "domains": {}, "union": 1.0, "seconds": 2.5}\n'


def _recipe(method: str) -> Recipe:
    return parse_recipe({"backbone": "wrn14_2", "domains": ["one"], "method": method})


ENTRIES = [Entry(name, _recipe(name)) for name in ("bn", "feature", "finetune")]


class _Trainer:
    """Stands in for training and measuring, which other tests do."""

    def __init__(self, failing: dict[str, BaseException] | None = None) -> None:
        self.trained: list[str] = []
        self.failing = failing or {}

    def train(self, recipe: Recipe, path: Path, observers: Sequence[Observer], device: str, use_cache: bool) -> None:
        assert (device, use_cache) == ("cpu", False)
        self.trained.append(path.name)
        if path.name in self.failing:
            raise self.failing[path.name]
        path.mkdir(parents=True, exist_ok=True)
        RunFolder(path).log.write_text(LOG)

    def open(self, path: Path, device: str) -> Subject:
        return Subject(_recipe(path.name), {}, _no_classifier, CostReport((), (), ()), (1, 1), 0, 0)


def _no_classifier(domain: str) -> Classifier:
    raise AssertionError(f"{domain} is not classified here")


def _evaluation_of(subject: Subject, split: str, answers: object) -> Evaluation:
    assert subject.recipe.method is not None
    return Evaluation.model_validate(results(subject.recipe.method.name, None, split=split))


@pytest.fixture
def trainer(monkeypatch: pytest.MonkeyPatch) -> _Trainer:
    trainer = _Trainer()
    monkeypatch.setattr("prunus.comparison.trials.train_or_continue", trainer.train)
    monkeypatch.setattr("prunus.comparison.trials.open_subject", trainer.open)
    monkeypatch.setattr("prunus.comparison.trials.evaluation_of", _evaluation_of)
    return trainer


def _trials(folder: Path, split: str = "test") -> Trials:
    return Trials(ENTRIES, folder, split, "cpu", use_cache=False)


def test_required_rows_come_first_and_every_step_is_reported(trainer: _Trainer, tmp_path: Path) -> None:
    titles: list[str] = []

    def watch(title: str) -> list[Observer]:
        titles.append(title)
        return []

    seen = [sorted(outcome.results) for outcome in _trials(tmp_path).run(watch)]
    assert titles == ["1/3 feature", "2/3 finetune", "3/3 bn"]
    assert trainer.trained == ["feature", "finetune", "bn"]
    assert seen == [["feature"], ["feature", "finetune"], ["bn", "feature", "finetune"]]


def test_results_are_kept_with_their_recipe_and_training_time(trainer: _Trainer, tmp_path: Path) -> None:
    list(_trials(tmp_path).run(lambda _title: []))
    content = json.loads(RunFolder(tmp_path / "bn").results.read_text())
    assert content["seconds"] == 2.5
    assert content["recipe"] == ENTRIES[0].recipe.model_dump(mode="json")
    assert content["split"] == "test"


def test_finished_rows_are_not_trained_again_unless_recipe_or_split_changed(trainer: _Trainer, tmp_path: Path) -> None:
    list(_trials(tmp_path).run(lambda _title: []))
    trainer.trained.clear()
    *_, outcome = _trials(tmp_path).run(lambda _title: [])
    assert trainer.trained == []
    assert sorted(outcome.results) == ["bn", "feature", "finetune"]
    assert _trials(tmp_path).finished(Entry("bn", _recipe("bn").model_copy(update={"seed": 1}))) is None
    assert _trials(tmp_path, "validation").finished(ENTRIES[0]) is None
    assert _trials(tmp_path).finished(ENTRIES[0]) is not None


@pytest.mark.parametrize("content", ['{"spli', "{}", "[]"])
def test_damaged_results_are_measured_again(trainer: _Trainer, tmp_path: Path, content: str) -> None:
    list(_trials(tmp_path).run(lambda _title: []))
    RunFolder(tmp_path / "bn").results.write_text(content)
    trainer.trained.clear()
    list(_trials(tmp_path).run(lambda _title: []))
    assert trainer.trained == ["bn"]


def test_a_row_that_cannot_be_trained_is_named_and_a_required_one_stops_everything(
    trainer: _Trainer, tmp_path: Path
) -> None:
    trainer.failing = {"bn": TrainingError("the loss is not a number")}
    *_, outcome = _trials(tmp_path / "a").run(lambda _title: [])
    assert outcome.failed == {"bn": "the loss is not a number"}
    assert sorted(outcome.results) == ["feature", "finetune"]
    trainer.failing = {"finetune": TrainingError("the loss is not a number")}
    with pytest.raises(TrainingError, match="not a number"):
        list(_trials(tmp_path / "b").run(lambda _title: []))


@pytest.mark.parametrize("stop", [KeyboardInterrupt(), TrainingInterrupted("stopped")])
def test_an_interruption_says_where_and_how_to_continue(trainer: _Trainer, tmp_path: Path, stop: BaseException) -> None:
    trainer.failing = {"bn": stop}
    with pytest.raises(TrainingInterrupted, match="at bn; finished work is saved: continue with the same command"):
        list(_trials(tmp_path).run(lambda _title: []))
    assert trainer.trained == ["feature", "finetune", "bn"]
