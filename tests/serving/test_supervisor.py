"""Workers that die are replaced, more and more slowly if they die soon, and all stop together."""

from __future__ import annotations

import logging
import os
import signal
import subprocess
import sys
import threading
import time

import pytest

from prunus.errors import PrunusError
from prunus.serving.supervisor import FIRST_DELAY, HEALTHY_SECONDS, LONGEST_DELAY, Supervisor, stopped_by_signals
from tests.makers.live_service import until

SLEEP = [sys.executable, "-c", "import time; time.sleep(600)"]
DEAF = [sys.executable, "-c", "import signal, time; signal.signal(15, signal.SIG_IGN); print(1); time.sleep(600)"]


class Factory:
    """Starts real processes and keeps them."""

    def __init__(self, command: list[str] = SLEEP) -> None:
        self.command = command
        self.started: list[subprocess.Popen[bytes]] = []
        self.ready = 0
        self.failing = False

    def start(self) -> subprocess.Popen[bytes]:
        if self.failing:
            raise BlockingIOError(11, "no more processes")
        self.started.append(subprocess.Popen(self.command, stdout=subprocess.PIPE))
        return self.started[-1]

    def supervisor(self, count: int = 1, stop_seconds: float = 60.0) -> Supervisor:
        return Supervisor(self.start, lambda worker: True, count, self._count, stop_seconds)

    def _count(self) -> None:
        self.ready += 1

    def kill_last(self) -> None:
        self.started[-1].kill()
        self.started[-1].wait()


def test_a_dead_worker_is_replaced_after_a_moment_and_the_others_stay(caplog: pytest.LogCaptureFixture) -> None:
    factory = Factory()
    supervisor = factory.supervisor(2)
    supervisor.check(0.0)
    assert (len(factory.started), factory.ready) == (2, 1)
    factory.kill_last()
    with caplog.at_level(logging.WARNING):
        supervisor.check(HEALTHY_SECONDS)
    assert f"worker 2 (process {factory.started[1].pid}) ended with status -9" in caplog.text
    supervisor.check(HEALTHY_SECONDS + FIRST_DELAY - 0.01)
    assert len(factory.started) == 2
    supervisor.check(HEALTHY_SECONDS + FIRST_DELAY)
    assert (len(factory.started), factory.ready) == (3, 1)
    assert factory.started[0].poll() is None
    supervisor.stop()
    supervisor.run()
    assert [worker.returncode for worker in factory.started] == [-15, -9, -15]


def test_workers_that_die_again_and_again_are_replaced_more_and_more_slowly() -> None:
    factory = Factory()
    supervisor = factory.supervisor()
    now, delays = 0.0, []
    supervisor.check(now)
    for _ in range(9):
        factory.kill_last()
        supervisor.check(now)
        delays.append(supervisor.places[0].due - now)
        now = supervisor.places[0].due
        supervisor.check(now)
    assert delays == [1, 2, 4, 8, 16, LONGEST_DELAY, LONGEST_DELAY, LONGEST_DELAY, LONGEST_DELAY]
    factory.kill_last()
    supervisor.check(now + HEALTHY_SECONDS)  # this one had lived
    assert supervisor.places[0].due - now - HEALTHY_SECONDS == pytest.approx(FIRST_DELAY)
    supervisor.stop()
    supervisor.run()


def test_a_worker_that_dies_before_the_service_was_ready_ends_it() -> None:
    factory = Factory()
    supervisor = Supervisor(factory.start, lambda worker: False, 2, lambda: None, 60.0)
    supervisor.check(0.0)
    factory.kill_last()
    with pytest.raises(PrunusError, match="worker 2 ended with status -9 before the service was ready"):
        supervisor.run()
    assert factory.started[0].returncode == -15


def test_a_worker_that_cannot_be_started_is_tried_again_and_the_others_stay(caplog: pytest.LogCaptureFixture) -> None:
    factory = Factory()
    supervisor = factory.supervisor(2)
    supervisor.check(0.0)
    factory.kill_last()
    supervisor.check(HEALTHY_SECONDS)
    factory.failing = True
    due = HEALTHY_SECONDS + FIRST_DELAY
    with caplog.at_level(logging.WARNING):
        supervisor.check(due)
    assert "worker 2 cannot be started ([Errno 11] no more processes); it is tried again in" in caplog.text
    factory.failing = False
    supervisor.check(due + 2 * FIRST_DELAY - 0.01)
    assert len(factory.started) == 2
    supervisor.check(due + 2 * FIRST_DELAY)
    assert len(factory.started) == 3
    assert factory.started[0].poll() is None
    supervisor.stop()
    supervisor.run()


def test_a_service_whose_first_workers_cannot_be_started_says_so() -> None:
    factory = Factory()
    factory.failing = True
    with pytest.raises(PrunusError, match=r"worker 1 cannot be started: .*no more processes"):
        factory.supervisor().run()


def test_the_service_is_ready_once_all_workers_are() -> None:
    factory = Factory()
    answering: set[int] = set()
    supervisor = Supervisor(factory.start, lambda worker: worker.pid in answering, 2, factory._count, 60.0)
    supervisor.check(0.0)
    answering.add(factory.started[0].pid)
    supervisor.check(0.1)
    assert factory.ready == 0
    answering.add(factory.started[1].pid)
    for _ in range(3):
        supervisor.check(0.2)
    assert factory.ready == 1
    supervisor.stop()
    supervisor.run()


def test_a_worker_that_does_not_stop_is_killed() -> None:
    factory = Factory(DEAF)
    supervisor = factory.supervisor(stop_seconds=0.1)
    supervisor.check(0.0)
    assert factory.started[0].stdout is not None
    factory.started[0].stdout.readline()
    supervisor.stop()
    supervisor.run()
    assert factory.started[0].returncode == -9


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_stops_all_and_the_handlers_are_restored(number: signal.Signals) -> None:
    before = signal.getsignal(number)
    factory = Factory()
    supervisor = factory.supervisor(2)
    threading.Timer(0.3, os.kill, (os.getpid(), number)).start()
    start = time.monotonic()
    with stopped_by_signals(supervisor):
        supervisor.run()
    assert 0.2 < time.monotonic() - start < 30
    assert signal.getsignal(number) is before
    until(lambda: all(worker.returncode == -15 for worker in factory.started))
