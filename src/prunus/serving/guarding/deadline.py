"""The time limit of a request, which also ends when its client disconnects."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Awaitable, Callable
from types import TracebackType
from typing import Any

from prunus.serving.refusals import Refusal

LATE_SECONDS = 1.0  # a timer is later than this only if the process was stopped or the machine was asleep


class Deadline:
    """A context that interrupts its task after some seconds with the refusal of the current stage.

    It works like `asyncio.timeout`, which Python 3.10 lacks, and needs no extra task per request.
    """

    def __init__(self, seconds: float, refusal: Refusal) -> None:
        self.refusal = refusal  # raised if the time is up; each stage of the request sets its own
        self._seconds = seconds
        self._reason: Refusal | None = None
        self._watch: asyncio.Future[Any] | None = None

    def __enter__(self) -> Deadline:
        task = asyncio.current_task()
        assert task is not None
        self._task = task
        self._start_timer()
        return self

    def _start_timer(self) -> None:
        loop = asyncio.get_running_loop()
        self._timer = loop.call_later(self._seconds, self._expire, loop.time() + self._seconds)

    def _expire(self, due: float) -> None:
        if asyncio.get_running_loop().time() > due + LATE_SECONDS:  # the process was suspended: start again
            self._start_timer()
        else:
            self.interrupt(self.refusal)

    def watch(self, wait_for_end: Callable[[], Awaitable[object]], refusal: Refusal) -> None:
        """Interrupt the task as well when an awaitable ends, such as the connection."""
        self._watch = asyncio.ensure_future(wait_for_end())
        self._watch.add_done_callback(lambda watch: None if watch.cancelled() else self.interrupt(refusal))

    def interrupt(self, refusal: Refusal) -> None:
        """Interrupt the task with a refusal."""
        if self._reason is None:
            self._reason = refusal
            self._task.cancel()

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        self._timer.cancel()
        if self._watch is not None:
            self._watch.cancel()
        if self._reason is not None and kind is not None and issubclass(kind, asyncio.CancelledError):
            if sys.version_info >= (3, 11):
                self._task.uncancel()  # the cancellation ends here
            raise self._reason from None
