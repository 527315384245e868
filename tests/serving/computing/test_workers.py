"""Threads of a service: they hand on results and failures, and a stop waits for them only so long."""

from __future__ import annotations

import subprocess
import sys
import threading

import pytest

from prunus.serving.computing.workers import Workers

STUCK = """
import threading
from prunus.serving.computing.workers import Workers
workers, started = Workers(1, "stuck"), threading.Event()
workers.submit(lambda: (started.set(), threading.Event().wait()))
started.wait()
print(workers.finish(0.1))
"""


def test_results_and_failures_reach_whoever_asked() -> None:
    workers = Workers(2, "test")
    assert workers.submit(divmod, 7, 2).result(60) == (3, 1)
    with pytest.raises(ZeroDivisionError):
        workers.submit(divmod, 1, 0).result(60)
    assert workers.finish(60)


def test_a_call_that_was_taken_back_is_never_made() -> None:
    workers, gate = Workers(1, "test"), threading.Event()
    made: list[int] = []
    workers.submit(gate.wait, 60)
    unwanted = workers.submit(made.append, 1)
    wanted = workers.submit(made.append, 2)
    assert unwanted.cancel()
    gate.set()
    wanted.result(60)
    assert workers.finish(60)
    assert made == [2]


def test_a_process_ends_although_a_call_does_not() -> None:
    done = subprocess.run([sys.executable, "-c", STUCK], capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, "False\n", "")
