"""Run trials in several processes of this machine, each with its share of the threads."""

import contextlib
import math
import multiprocessing
import os
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from multiprocessing.connection import Connection, wait
from multiprocessing.context import SpawnProcess
from typing import Final

import torch

from prunus.comparison.execution import Ended
from prunus.comparison.relay import Event, run_remotely
from prunus.comparison.trials import Trial
from prunus.errors import TrainingInterrupted
from prunus.training.observers import Observers, Watch

START_METHOD: Final = "spawn"  # CUDA does not survive a fork
SECONDS_TO_SAVE = 60  # after that, a process that was asked to stop is killed


@dataclass(frozen=True)
class Leaving:
    """The last message of a worker that was asked to stop."""

    end: Ended


@dataclass(frozen=True)
class Worker:
    """A process that runs one trial after the other."""

    slot: int
    process: SpawnProcess
    connection: "Connection[Trial, Event | Ended | Leaving]"

    def send(self, trial: Trial) -> None:
        """Send a trial, with a GPU of its own if there are several."""
        gpus = torch.cuda.device_count()
        spread = gpus > 1 and trial.device in ("auto", "cuda")
        self.connection.send(replace(trial, device=f"cuda:{self.slot % gpus}") if spread else trial)

    def wait(self, seconds: float) -> None:
        """Wait for the end of the process, and kill it if it does not end in time."""
        self.process.join(seconds)
        self.process.kill()
        self.process.join()
        self.connection.close()


@dataclass(frozen=True)
class Task:
    """What a worker is doing."""

    trial: Trial
    worker: Worker
    observer: Observers


@dataclass(frozen=True)
class LocalProcesses:
    """At most so many trials are run at a time, each in another process; none begins after a monotonic time."""

    jobs: int
    until: float = math.inf

    def run(self, trials: Sequence[Trial], watch: Watch, ended: Callable[[Ended], None]) -> None:
        """Run trials; on Ctrl-C or an error, ask those that run to save and stop."""
        waiting = deque(trials)
        tasks: dict[object, Task] = {}  # by connection
        idle = [self._start(slot) for slot in range(min(self.jobs, len(trials)))]
        try:
            while waiting or tasks:
                while waiting and idle and time.monotonic() <= self.until:
                    task = self._begin(waiting.popleft(), idle.pop(0), watch)
                    tasks[task.worker.connection] = task
                if not tasks:  # the time is over
                    break
                for connection in wait([task.worker.connection for task in tasks.values()]):
                    task = tasks[connection]
                    message = _receive(task)
                    if isinstance(message, Event):
                        message.tell(task.observer)
                        continue
                    del tasks[connection]
                    if task.worker.process.is_alive():
                        idle.append(task.worker)
                    elif waiting:
                        idle.append(self._start(task.worker.slot))
                    ended(message)
        except KeyboardInterrupt:
            names = ", ".join(task.trial.name for task in tasks.values())
            raise TrainingInterrupted(f"at {names}; finished work is saved: continue with the same command") from None
        finally:
            _stop(idle, [task.worker for task in tasks.values()])

    def _start(self, slot: int) -> Worker:
        context = multiprocessing.get_context(START_METHOD)
        ours, theirs = context.Pipe()
        threads = max(1, (os.cpu_count() or 1) // self.jobs)
        process = context.Process(target=_work, args=(theirs, threads), daemon=True)
        process.start()
        theirs.close()  # so that the end of the process is the end of the connection
        return Worker(slot, process, ours)

    def _begin(self, trial: Trial, worker: Worker, watch: Watch) -> Task:
        """Send a trial to a worker, or to a new one if that was killed while it had nothing to do."""
        try:
            worker.send(trial)
        except OSError:
            worker.wait(SECONDS_TO_SAVE)
            worker = self._start(worker.slot)
            with contextlib.suppress(OSError):  # reading from a worker that cannot start tells why
                worker.send(trial)
        return Task(trial, worker, Observers(watch(trial.title)))


def _receive(task: Task) -> Event | Ended:
    """Return the next message of a worker; if it is the last one, its process has ended."""
    try:
        message = task.worker.connection.recv()
    except (EOFError, OSError):
        task.worker.wait(SECONDS_TO_SAVE)
        return Ended(task.trial.name, f"its process ended with exit code {task.worker.process.exitcode}")
    if isinstance(message, Leaving):
        task.worker.wait(SECONDS_TO_SAVE)
        return message.end
    return message


def _stop(idle: Sequence[Worker], busy: Sequence[Worker]) -> None:
    """End workers: those that train save first, and those that wait for a trial learn that there is none."""
    deadline = time.monotonic() + SECONDS_TO_SAVE
    for worker in idle:
        worker.connection.close()
    for worker in busy:
        worker.process.terminate()
    for worker in (*idle, *busy):
        worker.wait(max(0.0, deadline - time.monotonic()))


def _work(connection: "Connection[Event | Ended | Leaving, Trial]", threads: int) -> None:
    """Run the trials that arrive in a new process, until the connection is closed."""
    if hasattr(os, "setsid"):  # Ctrl-C reaches the parent only, which asks each process once to save and stop
        os.setsid()
    threading.Thread(target=_end_with_parent, daemon=True).start()
    torch.set_num_threads(threads)
    while True:
        try:
            trial = connection.recv()
        except (EOFError, OSError):
            return
        try:
            connection.send(run_remotely(trial, connection.send))
        except TrainingInterrupted as stop:
            connection.send(Leaving(Ended(trial.name, f"stopped: {stop}")))
            return


def _end_with_parent() -> None:
    """End this process when its parent was killed: the next command may train the same trial."""
    parent = multiprocessing.parent_process()
    assert parent is not None
    wait([parent.sentinel])
    os._exit(1)
