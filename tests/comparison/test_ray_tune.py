"""Trials on Ray: their share of machines, their events and how they end."""

from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pytest

pytest.importorskip("ray", reason="needs the extra sweep")

from prunus.comparison.execution import Ended
from prunus.comparison.ray_tune import MESSAGE, NUMBER, Messages, RayTune, Resources, resources_per_trial
from prunus.comparison.relay import Event
from prunus.training.observers import Observer
from tests.makers.stand_in_trials import stand_in_trials

BIG, SMALL = Resources(16, 4.0), Resources(2, 0.0)


@pytest.mark.parametrize(
    ("machines", "jobs", "each"),
    [
        ([SMALL], 1, Resources(2, 0.0)),
        ([SMALL], 2, Resources(1, 0.0)),
        ([SMALL], 4, Resources(0.5, 0.0)),
        ([BIG], 1, Resources(16, 1.0)),
        ([BIG], 4, Resources(4, 1.0)),
        ([BIG], 6, Resources(2, 0.5)),
        ([BIG, BIG], 8, Resources(4, 1.0)),
        ([SMALL, SMALL, SMALL], 3, Resources(2, 0.0)),
        ([BIG, SMALL], 4, Resources(1, 1.0)),
    ],
)
def test_machines_are_divided_among_the_trials_that_run_at_a_time(
    machines: list[Resources], jobs: int, each: Resources
) -> None:
    assert resources_per_trial(machines, jobs) == each
    assert each.threads >= 1
    needed_gpus = each.gpus * jobs
    assert needed_gpus <= sum(machine.gpus for machine in machines)


@pytest.fixture
def receive(tmp_path: Path) -> tuple[Messages, list[object]]:
    seen: list[object] = []

    class Notes(Observer):
        def noted(self, message: str) -> None:
            seen.append(message)

    def watch(title: str) -> list[Observer]:
        seen.append(f"watch {title}")
        return [Notes()]

    return Messages(stand_in_trials(tmp_path, "bn", "taps"), watch, seen.append), seen


def _trial(number: int, error: Callable[[], object] = lambda: None) -> SimpleNamespace:
    return SimpleNamespace(config={NUMBER: number}, get_error=error)


def test_events_reach_the_observers_of_their_trial(receive: tuple[Messages, list[object]]) -> None:
    messages, seen = receive
    for text in ("one", "two"):
        messages.on_trial_result(1, [], _trial(1), {MESSAGE: Event("noted", (text,))})
    messages.on_trial_result(2, [], _trial(1), {MESSAGE: Ended("taps-seed1", "a reason")})
    assert seen == ["watch taps-seed1", "one", "two", Ended("taps-seed1", "a reason")]


def test_a_worker_that_died_is_a_failure_and_each_trial_ends_once(receive: tuple[Messages, list[object]]) -> None:
    messages, seen = receive
    messages.on_trial_error(1, [], _trial(0, lambda: "a trace\nMemoryError: too little\n"))
    messages.on_trial_error(1, [], _trial(0))
    messages.on_trial_error(1, [], _trial(1))
    assert seen == [Ended("bn", "MemoryError: too little"), Ended("taps-seed1", "its worker died")]


def test_nothing_to_do_starts_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ray.init", lambda **_options: pytest.fail("Ray was started"))
    ends: list[Ended] = []
    RayTune(2, None).run([], lambda _title: [], ends.append)
    assert ends == []
