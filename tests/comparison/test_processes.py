"""Trials in several processes: their events, failures and results arrive here, and all of them end with this one."""

import json
import os
import signal
from collections.abc import Sequence
from pathlib import Path

import pytest

from prunus.comparison.execution import Ended
from prunus.comparison.processes import Processes
from prunus.errors import PrunusError, TrainingInterrupted
from prunus.run_folder import EpochReport
from prunus.training.observers import Observer
from tests.makers.stand_in_trials import stand_in_trials

pytestmark = pytest.mark.slow  # every process imports torch


class _Diary(Observer):
    def __init__(self, title: str, calls: list[tuple[object, ...]]) -> None:
        self.title = title
        self.calls = calls

    def noted(self, message: str) -> None:
        self.calls.append((self.title, "noted", message))

    def epoch_ended(self, report: EpochReport) -> None:
        self.calls.append((self.title, "epoch_ended", report.union))


def test_trials_end_with_results_or_reasons(tmp_path: Path) -> None:
    trials = stand_in_trials(tmp_path, "bn", "taps", "piggyback")
    calls: list[tuple[object, ...]] = []
    ends: dict[str, Ended] = {}
    Processes(2).run(trials, lambda title: [_Diary(title, calls)], lambda end: ends.update({end.name: end}))
    assert ends == {
        "bn": Ended("bn"),
        "taps-seed1": Ended("taps-seed1", "the loss is not a number"),
        "piggyback-seed2": Ended("piggyback-seed2", "its process ended with exit code 3"),
    }
    assert trials[0].finished() is not None
    threads = max(1, (os.cpu_count() or 1) // 2)
    assert calls == [("bn", "noted", f"{threads} threads"), ("bn", "epoch_ended", 1.0)]


def _is_running(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


class _Once(Observer):
    """Does something when a trial has started."""

    def __init__(self, pids: list[int], signal_to_send: int | None) -> None:
        self.pids = pids
        self.signal_to_send = signal_to_send

    def started(self, step: int, total_steps: int) -> None:
        self.pids.append(step)
        if self.signal_to_send:
            os.kill(os.getpid(), self.signal_to_send)


def test_ctrl_c_lets_every_process_save_and_says_how_to_continue(tmp_path: Path) -> None:
    trials = stand_in_trials(tmp_path, "finetune", "bn")
    pids: list[int] = []

    def watch(title: str) -> Sequence[Observer]:
        return [_Once(pids, signal.SIGINT)] if title == "finetune" else []

    with pytest.raises(TrainingInterrupted, match="at finetune; finished work is saved: continue with"):
        Processes(1).run(trials, watch, lambda _end: None)
    assert json.loads((tmp_path / "finetune" / "stopped.json").read_text()) == {"by_signal": True}
    assert not _is_running(pids[0])
    assert not (tmp_path / "bn-seed1").exists()


def test_an_error_that_concerns_all_trials_is_marked_and_stops_those_that_run(tmp_path: Path) -> None:
    trials = stand_in_trials(tmp_path, "finetune", "union")
    pids: list[int] = []
    ends: list[Ended] = []

    def ended(end: Ended) -> None:
        ends.append(end)
        raise PrunusError(end.reason)

    with pytest.raises(PrunusError, match="an image cannot be read"):
        Processes(2).run(trials, lambda _title: [_Once(pids, None)], ended)
    assert ends == [Ended("union-seed1", "an image cannot be read", stops_all=True)]
    assert not any(_is_running(pid) for pid in pids)
