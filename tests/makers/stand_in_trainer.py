"""Stand-ins for training and measuring, for tests of what is trained and when."""

from collections.abc import Sequence
from pathlib import Path

import pytest

from prunus.comparison.plan import Entry
from prunus.config import Recipe
from prunus.evaluation.subject import Subject
from prunus.measure.cost import CostReport
from prunus.measure.evaluation import Evaluation
from prunus.probabilities import Classifier
from prunus.recipes import parse_recipe
from prunus.run_folder import RunFolder
from prunus.training.observers import Observer
from prunus.training.settling import settled
from tests.makers.run_folders import results

LOG = '{"epoch": 0, "step": 4, "domains": {}, "union": 1.0, "seconds": 2.5}\n'


def plain_recipe(method: str, seed: int = 0) -> Recipe:
    """Return a recipe that nothing needs to read."""
    return parse_recipe({"backbone": "wrn14_2", "domains": ["one"], "method": method, "seed": seed})


def plain_entry(method: str, seed: int = 0) -> Entry:
    """Return an entry of a plan, named as the planner does."""
    return Entry(f"{method}-seed{seed}" if seed else method, plain_recipe(method, seed), method, {})


class StandInTrainer:
    """Remembers what it was asked to train."""

    def __init__(self) -> None:
        self.trained: list[str] = []
        self.failing: dict[str, BaseException] = {}

    def train(self, recipe: Recipe, path: Path, observers: Sequence[Observer], device: str, use_cache: bool) -> None:
        """Write a log, or fail."""
        assert (device, use_cache) == ("cpu", False)
        self.trained.append(path.name)
        if path.name in self.failing:
            raise self.failing[path.name]
        path.mkdir(parents=True, exist_ok=True)
        RunFolder(path).log.write_text(LOG)

    def open(self, path: Path, device: str) -> Subject:
        """Return a subject that knows its recipe only."""
        recipe = settled(plain_recipe(path.name.partition("-")[0]), [4000])
        return Subject(recipe, {}, _no_classifier, CostReport((), (), ()), (1, 1), 0, 0)

    def install(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Take the place of training and measuring."""
        monkeypatch.setattr("prunus.comparison.trials.train_or_continue", self.train)
        monkeypatch.setattr("prunus.comparison.trials.open_subject", self.open)
        monkeypatch.setattr("prunus.comparison.trials.evaluation_of", _evaluation_of)


def _no_classifier(domain: str) -> Classifier:
    raise AssertionError(f"{domain} is not classified here")


def _evaluation_of(subject: Subject, split: str, answers: object) -> Evaluation:
    assert subject.recipe.method is not None
    return Evaluation.model_validate(results(subject.recipe.method.name, None, split=split))
