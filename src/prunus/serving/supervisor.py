"""Run several workers, start another one for each that dies, and stop all of them on a signal."""

from __future__ import annotations

import logging
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from prunus.errors import PrunusError

FIRST_DELAY = 0.5  # seconds until a dead worker is replaced; doubles with each that dies soon again
LONGEST_DELAY = 30.0
HEALTHY_SECONDS = 10.0  # a worker that lives longer was not part of a crash loop
POLL_SECONDS = 0.05

log = logging.getLogger(__name__)
Worker = subprocess.Popen[bytes]


@dataclass
class Place:
    """The place of one worker: its process, when it started, and when the next one may start."""

    number: int
    worker: Worker | None = None
    ready: bool = False
    started: float = 0.0
    delay: float = FIRST_DELAY
    due: float = 0.0


class Supervisor:
    """Keeps a number of workers running until it is told to stop.

    Args:
        start: starts a worker.
        is_ready: returns whether a worker now answers requests; not asked again after it does.
        ready: called once all workers do.
        stop_seconds: time for workers to answer their accepted requests before they are killed.
    """

    def __init__(
        self,
        start: Callable[[], Worker],
        is_ready: Callable[[Worker], bool],
        count: int,
        ready: Callable[[], None],
        stop_seconds: float,
    ) -> None:
        self.places = [Place(number + 1) for number in range(count)]
        self._start = start
        self._is_ready = is_ready
        self._ready: Callable[[], None] | None = ready
        self._stop_seconds = stop_seconds
        self._stopping = False

    def stop(self) -> None:
        """Ask for the end; `run` returns when all workers have stopped."""
        self._stopping = True

    def run(self) -> None:
        """Run until the end is asked for."""
        try:
            while not self._stopping:
                self.check(time.monotonic())
                time.sleep(POLL_SECONDS)
        finally:
            self._stop_all()

    def check(self, now: float) -> None:
        """Start the workers that are missing, and report once all are ready."""
        for place in self.places:
            if place.worker is not None and place.worker.poll() is not None:
                self._bury(place, place.worker, now)
            if place.worker is None and now >= place.due:
                self._fill(place, now)
            place.ready = place.ready or (place.worker is not None and self._is_ready(place.worker))
        if self._ready is not None and all(place.ready for place in self.places):
            self._ready()
            self._ready = None

    def _fill(self, place: Place, now: float) -> None:
        try:
            place.worker, place.started = self._start(), now
        except OSError as error:  # out of processes, memory or files
            if self._ready is not None:
                raise PrunusError(f"worker {place.number} cannot be started: {error}") from None
            place.delay = min(2 * place.delay, LONGEST_DELAY)
            place.due = now + place.delay
            log.warning(
                "worker %d cannot be started (%s); it is tried again in %g seconds", *(place.number, error, place.delay)
            )

    def _bury(self, place: Place, worker: Worker, now: float) -> None:
        status = worker.returncode
        if self._ready is not None:  # it would fail again in the same way
            raise PrunusError(f"worker {place.number} ended with status {status} before the service was ready")
        soon = now - place.started < HEALTHY_SECONDS
        place.delay = min(2 * place.delay, LONGEST_DELAY) if soon else FIRST_DELAY
        _close(worker)
        place.worker, place.ready, place.due = None, False, now + place.delay
        log.warning(
            "worker %d (process %d) ended with status %d; another one starts in %g seconds",
            *(place.number, worker.pid, status, place.delay),
        )

    def _stop_all(self) -> None:
        workers = [place.worker for place in self.places if place.worker is not None]
        for worker in workers:
            worker.send_signal(signal.SIGTERM)
        deadline = time.monotonic() + self._stop_seconds
        for worker in workers:
            try:
                worker.wait(max(0.0, deadline - time.monotonic()))
            except subprocess.TimeoutExpired:
                log.warning("process %d did not stop in time and is killed", worker.pid)
                worker.kill()
                worker.wait()
            _close(worker)


def _close(worker: Worker) -> None:
    for stream in (worker.stdin, worker.stdout):
        if stream is not None:
            stream.close()


@contextmanager
def stopped_by_signals(supervisor: Supervisor) -> Iterator[None]:
    """Stop a supervisor on SIGINT and SIGTERM."""
    numbers = (signal.SIGINT, signal.SIGTERM)
    handlers = {number: signal.signal(number, lambda *_: supervisor.stop()) for number in numbers}
    try:
        yield
    finally:
        for number, handler in handlers.items():
            signal.signal(number, handler)
