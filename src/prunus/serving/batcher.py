"""Images of different requests and domains computed together: whoever comes within a small window shares a pass."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial

from prunus.images import Floats
from prunus.serving.ranking import Rank, Ranking


@dataclass(frozen=True)
class Waiting:
    """An image whose turn will come; a cancelled answer is never computed."""

    image: Floats
    domain: str
    answer: asyncio.Future[Ranking]


class Batcher:
    """Collects images on the event loop and computes them in a thread of its own, one batch at a time.

    Args:
        window: seconds that an image waits for others that are on their way.
        others_come: tells whether any are; where none is, a batch starts at once.
    """

    def __init__(
        self, rank: Rank, batch_images: int, window: float, others_come: Callable[[], bool] = lambda: True
    ) -> None:
        self.on_batch: Callable[[int], None] = lambda count: None
        self._rank = rank
        self._batch_images = batch_images
        self._window = window
        self._others_come = others_come
        self._waiting: deque[Waiting] = deque()
        self._busy = False
        self._timer: asyncio.TimerHandle | None = None
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="prunus-compute")

    def __len__(self) -> int:
        return len(self._waiting)

    def submit(self, images: list[Floats], domain: str) -> list[asyncio.Future[Ranking]]:
        """Queue prepared images of one domain, and give their answers to come."""
        loop = asyncio.get_running_loop()
        added = [Waiting(image, domain, loop.create_future()) for image in images]
        self._waiting.extend(added)
        if not self._busy:
            self._plan(loop)
        return [each.answer for each in added]

    def close(self) -> None:
        """End the thread after what it computes now."""
        self._thread.shutdown()

    def _plan(self, loop: asyncio.AbstractEventLoop) -> None:
        if len(self._waiting) >= self._batch_images or not self._others_come():
            self._start()
        elif self._timer is None:
            self._timer = loop.call_later(self._window, self._start)

    def _start(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        batch = self._next_batch()
        if self._busy or not batch:
            return
        self._busy = True
        images, domains = [each.image for each in batch], [each.domain for each in batch]
        done = asyncio.get_running_loop().run_in_executor(self._thread, self._rank, images, domains)
        done.add_done_callback(partial(self._finish, batch))
        self.on_batch(len(batch))

    def _next_batch(self) -> list[Waiting]:
        batch: list[Waiting] = []
        while self._waiting and len(batch) < self._batch_images and not self._busy:
            each = self._waiting.popleft()
            if not each.answer.done():  # whoever asked may have gone
                batch.append(each)
        return batch

    def _finish(self, batch: list[Waiting], done: asyncio.Future[list[Ranking]]) -> None:
        self._busy = False
        error = None if done.cancelled() else done.exception()
        for number, each in enumerate(batch):
            if each.answer.done():
                continue
            if error is not None:
                each.answer.set_exception(error)
            else:
                each.answer.set_result(done.result()[number])
        if self._waiting:
            self._start()  # they have waited for as long as the last batch took
