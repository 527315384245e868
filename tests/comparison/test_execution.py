"""Trials are trained once, required rows first, and a failure does not stop the others."""

from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from prunus.comparison.execution import Ended, OneByOne, Outcome, Trials
from prunus.comparison.plan import REQUIRED, Entry
from prunus.comparison.trials import Trial
from prunus.errors import BackboneError, DataError, TrainingError, TrainingInterrupted
from prunus.training.observers import Observer, Watch
from tests.makers.stand_in_trainer import StandInTrainer, plain_entry

ENTRIES = [plain_entry(name) for name in ("bn", "feature", "finetune")]


@pytest.fixture
def trainer(monkeypatch: pytest.MonkeyPatch) -> StandInTrainer:
    trainer = StandInTrainer()
    trainer.install(monkeypatch)
    return trainer


def _run(
    folder: Path, entries: list[Entry] = ENTRIES, required: tuple[str, ...] = ("feature", "finetune")
) -> list[Outcome]:
    outcomes: list[Outcome] = []
    trials = Trials(entries, folder, "test", "cpu", use_cache=False, required=required)
    trials.run(OneByOne(), lambda _title: [], outcomes.append)
    return outcomes


def test_required_rows_come_first_and_every_step_is_reported(trainer: StandInTrainer, tmp_path: Path) -> None:
    titles: list[str] = []
    seen: list[list[str]] = []

    def watch(title: str) -> list[Observer]:
        titles.append(title)
        return []

    trials = Trials(ENTRIES, tmp_path, "test", "cpu", use_cache=False, required=REQUIRED)
    trials.run(OneByOne(), watch, lambda outcome: seen.append(sorted(outcome.results)))
    assert titles == ["1/3 feature", "2/3 finetune", "3/3 bn"]
    assert trainer.trained == ["feature", "finetune", "bn"]
    assert seen == [[], ["feature"], ["feature", "finetune"], ["bn", "feature", "finetune"]]


def test_finished_trials_are_not_trained_again(trainer: StandInTrainer, tmp_path: Path) -> None:
    _run(tmp_path)
    (tmp_path / "bn" / "results.json").write_text('{"spli')
    trainer.trained.clear()
    outcomes = _run(tmp_path)
    assert trainer.trained == ["bn"]
    assert [sorted(outcome.results) for outcome in outcomes] == [["feature", "finetune"], ["bn", "feature", "finetune"]]
    trainer.trained.clear()
    assert sorted(_run(tmp_path)[-1].results) == ["bn", "feature", "finetune"]
    assert trainer.trained == []


@pytest.mark.parametrize(
    "error",
    [
        TrainingError("the loss is not a number"),
        BackboneError("the loss is not a number"),
        RuntimeError("the loss is not a number\nmore lines of torch"),
    ],
)
def test_a_trial_that_fails_is_named_and_the_others_are_trained(
    trainer: StandInTrainer, tmp_path: Path, error: Exception
) -> None:
    trainer.failing = {"bn": error}
    outcome = _run(tmp_path, [plain_entry("bn"), plain_entry("taps")], ())[-1]
    assert outcome.failed == {"bn": "the loss is not a number"}
    assert list(outcome.results) == ["taps"]


def test_a_required_trial_that_fails_stops_everything(trainer: StandInTrainer, tmp_path: Path) -> None:
    trainer.failing = {"finetune-seed1": TrainingError("the loss is not a number")}
    with pytest.raises(TrainingError, match="finetune-seed1: the loss is not a number"):
        _run(tmp_path, [*ENTRIES, plain_entry("finetune", 1)])
    assert trainer.trained == ["feature", "finetune", "finetune-seed1"]


def test_an_error_that_concerns_all_trials_stops_everything(trainer: StandInTrainer, tmp_path: Path) -> None:
    trainer.failing = {"bn": DataError("an image cannot be read")}
    with pytest.raises(DataError, match="an image cannot be read"):
        _run(tmp_path, [plain_entry("bn"), plain_entry("taps")], ())
    assert trainer.trained == ["bn"]


def test_results_that_cannot_be_seen_here_are_a_failure(tmp_path: Path) -> None:
    class Elsewhere:
        def run(self, trials: Sequence[Trial], watch: Watch, ended: Callable[[Ended], None]) -> None:
            for trial in trials:
                ended(Ended(trial.name))

    outcomes: list[Outcome] = []
    Trials([plain_entry("bn")], tmp_path, "test", "cpu", use_cache=False).run(
        Elsewhere(), lambda _title: [], outcomes.append
    )
    assert "all machines must share this folder" in outcomes[-1].failed["bn"]


@pytest.mark.parametrize("stop", [KeyboardInterrupt(), TrainingInterrupted("stopped")])
def test_an_interruption_says_where_and_how_to_continue(
    trainer: StandInTrainer, tmp_path: Path, stop: BaseException
) -> None:
    trainer.failing = {"bn": stop}
    with pytest.raises(TrainingInterrupted, match="at bn; finished work is saved: continue with the same command"):
        _run(tmp_path)
    assert trainer.trained == ["feature", "finetune", "bn"]


def test_no_trial_begins_after_the_time_and_the_same_call_continues(trainer: StandInTrainer, tmp_path: Path) -> None:
    trials = Trials(ENTRIES, tmp_path, "test", "cpu", use_cache=False, required=REQUIRED)
    clock = iter([0.0, 1.0, 3.0])  # before each trial
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("prunus.comparison.execution.time.monotonic", lambda: next(clock))
        with pytest.raises(TrainingInterrupted, match=r"1 of 3 training runs to do; .* continue with the same command"):
            trials.run(OneByOne(until=2.0), lambda _title: [], lambda _outcome: None)
    assert trainer.trained == ["feature", "finetune"]
    trials.run(OneByOne(), lambda _title: [], lambda _outcome: None)
    assert trainer.trained == ["feature", "finetune", "bn"]
