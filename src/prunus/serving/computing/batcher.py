"""Batches images of different clients and domains that arrive within a short window into one pass."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from itertools import islice

from prunus.serving.computing.ranking import Job, Ranked, Ranking, Work
from prunus.serving.computing.workers import Workers
from prunus.serving.fairness import FairQueue

FIRST_SECONDS = 1e-3  # expected for an image before any was computed
NEW_SHARE = 0.1  # of the last batch in the expected seconds


@dataclass(eq=False)
class Waiting:
    """A queued request; what is left of it is skipped if its answer is cancelled."""

    job: Job
    answer: asyncio.Future[Ranked]
    taken: int = 0  # images that were computed or are being computed
    rankings: list[Ranking] = field(default_factory=list)

    @property
    def left(self) -> int:
        """Return the number of images that are not in a batch yet."""
        return len(self.job.decoded.images) - self.taken


@dataclass(frozen=True)
class Share:
    """The images of one request in one batch, as a range."""

    waiting: Waiting
    start: int
    stop: int


class Batcher:
    """A fair queue on the event loop and a thread that computes one batch at a time.

    Clients take turns by the number of their images. A request with more images than fit into a batch takes several.

    Args:
        batch_images: most images of a batch.
        window: seconds that a request waits for others that are arriving.
        others_come: returns whether any are arriving; if not, a batch starts immediately.
    """

    def __init__(
        self, work: Work, batch_images: int, window: float, others_come: Callable[[], bool] = lambda: True
    ) -> None:
        self.on_batch: Callable[[int], None] = lambda images: None
        self.image_seconds = FIRST_SECONDS  # a running mean
        self._work = work
        self._batch_images = batch_images
        self._window = window
        self._others_come = others_come
        self._queue: FairQueue[Waiting] = FairQueue(shared=True)
        self._images = 0  # that wait, including those of cancelled requests
        self._busy = False
        self._timer: asyncio.TimerHandle | None = None
        self._thread = Workers(1, "prunus-compute")

    def __len__(self) -> int:
        return len(self._queue)

    def submit(self, job: Job) -> asyncio.Future[Ranked]:
        """Queue a request, and return a future with its answer."""
        loop = asyncio.get_running_loop()
        waiting = Waiting(job, loop.create_future())
        self._queue.push(waiting, job.client, waiting.left)
        self._images += waiting.left
        if not self._busy:
            self._plan(loop)
        return waiting.answer

    def close(self, seconds: float) -> None:
        """Stop the thread after its current batch, and wait for it for at most some seconds."""
        self._thread.finish(seconds)

    def _plan(self, loop: asyncio.AbstractEventLoop) -> None:
        if self._images >= self._batch_images or not self._others_come():
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
        images = [image for each in batch for image in each.waiting.job.decoded.images[each.start : each.stop]]
        domains = [each.waiting.job.domain for each in batch for _ in range(each.start, each.stop)]
        done = asyncio.get_running_loop().run_in_executor(self._thread, self._work, images, domains)
        done.add_done_callback(partial(self._finish, batch, len(images), time.monotonic()))

    def _next_batch(self) -> list[Share]:
        batch: list[Share] = []
        room = self._batch_images
        while room and self._queue:
            waiting = self._queue.first()
            count = min(room, waiting.left)
            if waiting.answer.done():  # cancelled if the client disconnected
                count = waiting.left
            else:
                if not waiting.taken:
                    waiting.job.begins()
                batch.append(Share(waiting, waiting.taken, waiting.taken + count))
                room -= count
            waiting.taken += count
            self._images -= count
            if not waiting.left:
                self._queue.pop()
        return batch

    def _finish(self, batch: list[Share], images: int, began: float, done: asyncio.Future[list[Ranking]]) -> None:
        self._busy = False
        error = done.exception()
        if error is None:
            self.image_seconds += NEW_SHARE * ((time.monotonic() - began) / images - self.image_seconds)
        rankings = iter([] if error is not None else done.result())
        for share in batch:
            waiting = share.waiting
            waiting.rankings += islice(rankings, share.stop - share.start)
            if waiting.answer.done():
                continue
            if error is not None:
                waiting.answer.set_exception(error)
            elif len(waiting.rankings) == len(waiting.job.decoded.images):
                waiting.answer.set_result(Ranked(waiting.job.decoded.names, waiting.rankings))
        self.on_batch(0 if error is not None else images)
        if self._queue:
            self._start()  # these requests have already waited during the last batch
