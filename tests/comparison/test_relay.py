"""Events of a training run arrive at the observers of another process, but not every step."""

import pickle
from pathlib import Path

import pytest

from prunus.comparison.execution import Ended
from prunus.comparison.relay import Event, Relay, run_remotely
from prunus.run_folder import EpochReport
from prunus.training.observers import Observer
from tests.makers.stand_in_trials import StandInTrial, stand_in_trials

REPORT = EpochReport(0, 4, {}, union=0.5)


class _Diary(Observer):
    def __init__(self) -> None:
        self.calls: list[tuple[object, ...]] = []

    def noted(self, message: str) -> None:
        self.calls.append(("noted", message))

    def started(self, step: int, total_steps: int) -> None:
        self.calls.append(("started", step, total_steps))

    def stepped(self, step: int, epoch: int) -> None:
        self.calls.append(("stepped", step, epoch))

    def epoch_ended(self, report: EpochReport) -> None:
        self.calls.append(("epoch_ended", report))

    def ended(self) -> None:
        self.calls.append(("ended",))


def test_what_a_relay_observes_is_repeated_elsewhere() -> None:
    diary = _Diary()

    def carry(event: Event) -> None:
        copy: Event = pickle.loads(pickle.dumps(event))
        copy.tell(diary)

    relay = Relay(carry)
    relay.noted("hello")
    relay.started(0, 100)
    for step in range(1, 101):
        relay.stepped(step, 0)
    relay.epoch_ended(REPORT)
    relay.ended()
    steps = [call for call in diary.calls if call[0] == "stepped"]
    assert 1 <= len(steps) < 50
    assert [call for call in diary.calls if call[0] != "stepped"] == [
        ("noted", "hello"),
        ("started", 0, 100),
        ("epoch_ended", REPORT),
        ("ended",),
    ]


@pytest.mark.parametrize(
    ("name", "end"),
    [
        ("bn", Ended("bn")),
        ("taps", Ended("taps", "the loss is not a number")),
        ("union", Ended("union", "an image cannot be read", stops_all=True)),
    ],
)
def test_whatever_happens_is_how_a_trial_ended(name: str, end: Ended, tmp_path: Path) -> None:
    (trial,) = stand_in_trials(tmp_path, name)
    assert run_remotely(trial, lambda _event: None) == end


def test_a_mistake_in_the_program_is_reported_with_its_place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_arguments: object) -> None:
        raise KeyError("forgotten")

    monkeypatch.setattr(StandInTrial, "run", broken)
    end = run_remotely(stand_in_trials(tmp_path, "bn")[0], lambda _event: None)
    assert end.stops_all
    assert end.reason is not None
    assert "KeyError: 'forgotten'" in end.reason
    assert "test_relay.py" in end.reason
