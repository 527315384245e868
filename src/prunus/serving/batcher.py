"""Requests of different clients and domains worked on together: whoever comes within a small window shares a pass."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from prunus.serving.ranking import Job, Outcome, Ranked, Work
from prunus.serving.workers import Workers


@dataclass(frozen=True)
class Waiting:
    """A request whose turn will come; a cancelled answer is never worked on."""

    job: Job
    answer: asyncio.Future[Ranked]


class Batcher:
    """Collects requests on the event loop and works on them in a thread of its own, one batch at a time.

    Args:
        window: seconds that a request waits for others that are on their way.
        others_come: tells whether any are; where none is, a batch starts at once.
    """

    def __init__(
        self, work: Work, batch_requests: int, window: float, others_come: Callable[[], bool] = lambda: True
    ) -> None:
        self.on_batch: Callable[[int], None] = lambda images: None
        self._work = work
        self._batch_requests = batch_requests
        self._window = window
        self._others_come = others_come
        self._waiting: deque[Waiting] = deque()
        self._busy = False
        self._timer: asyncio.TimerHandle | None = None
        self._thread = Workers(1, "prunus-compute")

    def __len__(self) -> int:
        return len(self._waiting)

    def submit(self, job: Job) -> asyncio.Future[Ranked]:
        """Queue a request, and give its answer to come."""
        loop = asyncio.get_running_loop()
        waiting = Waiting(job, loop.create_future())
        self._waiting.append(waiting)
        if not self._busy:
            self._plan(loop)
        return waiting.answer

    def close(self, seconds: float) -> None:
        """End the thread after what it works on now, and wait for it for some seconds at the most."""
        self._thread.finish(seconds)

    def _plan(self, loop: asyncio.AbstractEventLoop) -> None:
        if len(self._waiting) >= self._batch_requests or not self._others_come():
            self._start()
        elif self._timer is None:
            self._timer = loop.call_later(self._window, self._start)

    def _start(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._busy:
            return
        batch = self._next_batch()
        if not batch:
            return
        self._busy = True
        jobs = [each.job for each in batch]
        done = asyncio.get_running_loop().run_in_executor(self._thread, self._work, jobs)
        done.add_done_callback(partial(self._finish, batch))

    def _next_batch(self) -> list[Waiting]:
        batch: list[Waiting] = []
        while self._waiting and len(batch) < self._batch_requests:
            each = self._waiting.popleft()
            if not each.answer.done():  # whoever asked may have gone
                batch.append(each)
        return batch

    def _finish(self, batch: list[Waiting], done: asyncio.Future[list[Outcome]]) -> None:
        self._busy = False
        error = done.exception()
        outcomes = [error] * len(batch) if error is not None else done.result()
        for each, outcome in zip(batch, outcomes, strict=True):
            if each.answer.done():
                continue
            if isinstance(outcome, Ranked):
                each.answer.set_result(outcome)
            else:
                each.answer.set_exception(outcome)
        self.on_batch(sum(len(outcome.rankings) for outcome in outcomes if isinstance(outcome, Ranked)))
        if self._waiting:
            self._start()  # they have waited for as long as the last batch took
