"""Observers hear of every event; logs hold each epoch once, also after a resume."""

import inspect
import json
from dataclasses import asdict, replace
from pathlib import Path

import pytest
from tensorboard.backend.event_processing.event_accumulator import (  # type: ignore[import-untyped]
    EventAccumulator,
)

from prunus.errors import StorageError
from prunus.run_folder import DomainProgress, EpochReport
from prunus.training.observers import JsonlLog, Observer, Observers, TensorBoardLog

EVENTS = [name for name, _ in inspect.getmembers(Observer, inspect.isfunction) if not name.startswith("_")]


def _report(epoch: int, validation: float | None = 0.5) -> EpochReport:
    progress = DomainProgress(1.5, 0.25, validation, 0.75, 2.0)
    return EpochReport(epoch, 4 * (epoch + 1), {"a": progress}, 0.9, 0.1, 3.0)


def test_there_are_events() -> None:
    assert {"noted", "started", "epoch_ended", "ended"} <= set(EVENTS)


@pytest.mark.parametrize("event", EVENTS)
def test_several_observers_hear_of_every_event_in_order(event: str) -> None:
    heard: list[tuple[int, tuple[object, ...]]] = []
    listeners = [Observer(), Observer()]
    for number, listener in enumerate(listeners):
        setattr(listener, event, lambda *args, number=number: heard.append((number, args)))
    arguments = tuple(range(len(inspect.signature(getattr(Observer(), event)).parameters)))
    getattr(Observers(listeners), event)(*arguments)
    assert heard == [(0, arguments), (1, arguments)]


@pytest.mark.parametrize("event", EVENTS)
def test_an_observer_ignores_what_it_does_not_override(event: str) -> None:
    method = getattr(Observer(), event)
    assert method(*inspect.signature(method).parameters) is None


def _entries(path: Path) -> list[dict[str, object]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_the_log_holds_one_line_per_epoch(tmp_path: Path) -> None:
    log = JsonlLog(tmp_path / "log.jsonl")
    log.started(0, 8)
    log.epoch_ended(_report(0))
    log.epoch_ended(_report(1, validation=None))
    first, second = _entries(tmp_path / "log.jsonl")
    assert (first["epoch"], first["step"], first["union"], first["intersection"]) == (0, 4, 0.9, 0.1)
    assert second["domains"] == {
        "a": {
            "loss": 1.5,
            "train_accuracy": 0.25,
            "validation_accuracy": None,
            "usage": 0.75,
            "budget_multiplier": 2.0,
        }
    }


def test_a_resumed_log_keeps_the_epochs_before_the_checkpoint_and_the_time(tmp_path: Path) -> None:
    path = tmp_path / "log.jsonl"
    lines = [json.dumps(asdict(replace(_report(epoch), seconds=100.0 * (epoch + 1)))) for epoch in range(3)]
    path.write_text("\n".join(lines) + '\n{"epoch": 3, "st')  # killed while it was writing
    log = JsonlLog(path)
    log.started(8, 16)
    assert [entry["epoch"] for entry in _entries(path)] == [0, 1]
    log.epoch_ended(_report(2))
    last = _entries(path)[-1]
    assert last["epoch"] == 2
    assert last["seconds"] == pytest.approx(200, abs=10)


def test_a_log_that_cannot_be_written_says_so(tmp_path: Path) -> None:
    log = JsonlLog(tmp_path / "log.jsonl")
    log.started(0, 8)
    (tmp_path / "log.jsonl").unlink()
    (tmp_path / "log.jsonl").mkdir()
    with pytest.raises(StorageError, match="cannot write"):
        log.epoch_ended(_report(0))


def test_tensorboard_shows_every_number_of_an_epoch_as_a_curve(tmp_path: Path) -> None:
    log = TensorBoardLog(tmp_path)
    log.started(0, 8)
    log.epoch_ended(_report(0))
    log.epoch_ended(_report(1, validation=None))
    log.ended()
    events = EventAccumulator(str(tmp_path))
    events.Reload()
    points = {tag: [(point.step, point.value) for point in events.Scalars(tag)] for tag in events.Tags()["scalars"]}
    assert points["loss/a"] == [(4, 1.5), (8, 1.5)]
    assert points["validation_accuracy/a"] == [(4, 0.5)]
    assert points["model/sharing_multiplier"] == [(4, 3.0), (8, 3.0)]
    assert {"usage/a", "model/union", "model/intersection"} <= points.keys()
