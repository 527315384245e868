"""Batches requests of different clients and domains that arrive within a short window into one pass."""

import asyncio
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from prunus.serving.computing.ranking import Job, Outcome, Ranked, Work
from prunus.serving.computing.workers import Workers


@dataclass(frozen=True)
class Waiting:
    """A queued request; it is skipped if its answer is cancelled."""

    job: Job
    answer: asyncio.Future[Ranked]


class Batcher:
    """A queue on the event loop and a thread that computes one batch at a time.

    Args:
        window: seconds that a request waits for others that are arriving.
        others_come: returns whether any are arriving; if not, a batch starts immediately.
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
        """Queue a request, and return a future with its answer."""
        loop = asyncio.get_running_loop()
        waiting = Waiting(job, loop.create_future())
        self._waiting.append(waiting)
        if not self._busy:
            self._plan(loop)
        return waiting.answer

    def close(self, seconds: float) -> None:
        """Stop the thread after its current batch, and wait for it for at most some seconds."""
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
        jobs = [waiting.job for waiting in batch]
        done = asyncio.get_running_loop().run_in_executor(self._thread, self._work, jobs)
        done.add_done_callback(partial(self._finish, batch))

    def _next_batch(self) -> list[Waiting]:
        batch: list[Waiting] = []
        while self._waiting and len(batch) < self._batch_requests:
            waiting = self._waiting.popleft()
            if not waiting.answer.done():  # cancelled if the client disconnected
                batch.append(waiting)
        return batch

    def _finish(self, batch: list[Waiting], done: asyncio.Future[list[Outcome]]) -> None:
        self._busy = False
        error = done.exception()
        outcomes = [error] * len(batch) if error is not None else done.result()
        for waiting, outcome in zip(batch, outcomes, strict=True):
            if waiting.answer.done():
                continue
            if isinstance(outcome, Ranked):
                waiting.answer.set_result(outcome)
            else:
                waiting.answer.set_exception(outcome)
        self.on_batch(sum(len(outcome.rankings) for outcome in outcomes if isinstance(outcome, Ranked)))
        if self._waiting:
            self._start()  # these requests have already waited during the last batch
