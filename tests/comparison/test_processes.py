"""Trials in several processes: their events, failures and results arrive here, and all of them end with this one."""

import json
import multiprocessing
import os
import signal
from collections.abc import Sequence
from multiprocessing.process import BaseProcess
from pathlib import Path

import pytest

from prunus.comparison.execution import Ended
from prunus.comparison.processes import LocalProcesses
from prunus.errors import PrunusError, TrainingInterrupted
from prunus.run_folder import EpochReport
from prunus.training.observers import Observer
from tests.makers.stand_in_trials import stand_in_trials

pytestmark = pytest.mark.slow  # imports torch in another process


@pytest.fixture(autouse=True)
def quick_start(monkeypatch: pytest.MonkeyPatch) -> None:
    """Import torch once, in the process that all workers of these tests are copies of."""
    multiprocessing.set_forkserver_preload(["tests.makers.stand_in_trials", "prunus.comparison.processes"])
    monkeypatch.setattr("prunus.comparison.processes.START_METHOD", "forkserver")


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
    workers: set[BaseProcess] = set()

    def ended(end: Ended) -> None:
        ends[end.name] = end
        workers.update(multiprocessing.active_children())

    LocalProcesses(2).run(trials, lambda title: [_Diary(title, calls)], ended)
    assert ends == {
        "bn": Ended("bn"),
        "taps-seed1": Ended("taps-seed1", "the loss is not a number"),
        "piggyback-seed2": Ended("piggyback-seed2", "its process ended with exit code 3"),
    }
    assert trials[0].finished() is not None
    threads = max(1, (os.cpu_count() or 1) // 2)
    assert calls == [("bn", "noted", f"{threads} threads"), ("bn", "epoch_ended", 1.0)]
    assert {worker.exitcode for worker in workers} == {0, 3}  # the idle one was not killed, which leaks semaphores


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
        LocalProcesses(1).run(trials, watch, lambda _end: None)
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
        LocalProcesses(2).run(trials, lambda _title: [_Once(pids, None)], ended)
    assert ends == [Ended("union-seed1", "an image cannot be read", stops_all=True)]
    assert not any(_is_running(pid) for pid in pids)


def test_workers_that_die_or_stop_are_replaced_and_the_other_trials_run(tmp_path: Path) -> None:
    trials = stand_in_trials(tmp_path, "bn", "bn", "finetune", "bn")
    ends: list[Ended] = []

    class _StopWorker(Observer):
        def started(self, step: int, total_steps: int) -> None:
            os.kill(step, signal.SIGTERM)

    def ended(end: Ended) -> None:
        ends.append(end)
        if end.name == "bn":  # the worker waits for the next trial
            (worker,) = multiprocessing.active_children()
            worker.kill()
            worker.join()

    def watch(title: str) -> Sequence[Observer]:
        return [_StopWorker()] if title.startswith("finetune") else []

    LocalProcesses(1).run(trials, watch, ended)
    assert ends == [
        Ended("bn"),
        Ended("bn-seed1"),
        Ended("finetune-seed2", "stopped: saved"),
        Ended("bn-seed3"),
    ]
    assert json.loads((tmp_path / "finetune-seed2" / "stopped.json").read_text()) == {"by_signal": True}


def test_a_worker_that_cannot_start_is_a_failure_of_its_trial(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("prunus.comparison.processes._work", os._exit)
    ends: list[Ended] = []
    LocalProcesses(1).run(stand_in_trials(tmp_path, "bn", "taps"), lambda _title: [], ends.append)
    assert [end.name for end in ends] == ["bn", "taps-seed1"]
    assert all(end.reason and end.reason.startswith("its process ended with exit code") for end in ends)


def test_no_trial_begins_after_the_time(tmp_path: Path) -> None:
    ends: list[Ended] = []
    LocalProcesses(2, until=-1.0).run(stand_in_trials(tmp_path, "bn", "taps"), lambda _title: [], ends.append)
    assert ends == []
