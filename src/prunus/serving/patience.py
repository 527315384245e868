"""How long a request is worked on: until its time is up or its client has gone."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from types import TracebackType
from typing import Any

from prunus.serving.refusals import Refusal

LATE_SECONDS = 1.0  # by which a timer is late only where the process was stopped, or the machine asleep


class Patience:
    """Interrupts the task inside it after some seconds, with the refusal that stands for the stage it is in.

    (Like `asyncio.timeout`, which Python 3.10 lacks, and lighter than a task of its own per request.)
    """

    def __init__(self, seconds: float, refusal: Refusal) -> None:
        self.refusal = refusal  # what to say if time is up now; whoever goes on to the next stage replaces it
        self._seconds = seconds
        self._why: Refusal | None = None
        self._watch: asyncio.Future[Any] | None = None

    def __enter__(self) -> Patience:
        task = asyncio.current_task()
        assert task is not None
        self._task = task
        self._wind()
        return self

    def _wind(self) -> None:
        loop = asyncio.get_running_loop()
        self._timer = loop.call_later(self._seconds, self._expire, loop.time() + self._seconds)

    def _expire(self, due: float) -> None:
        if asyncio.get_running_loop().time() > due + LATE_SECONDS:  # the whole process stood still: begin again
            self._wind()
        else:
            self._interrupt(self.refusal)

    def watch(self, wait_for_end: Callable[[], Awaitable[object]], refusal: Refusal) -> None:
        """Interrupt the task also when something ends, such as the connection."""
        self._watch = asyncio.ensure_future(wait_for_end())
        self._watch.add_done_callback(lambda watch: None if watch.cancelled() else self._interrupt(refusal))

    def _interrupt(self, refusal: Refusal) -> None:
        if self._why is None:
            self._why = refusal
            self._task.cancel()

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        self._timer.cancel()
        if self._watch is not None:
            self._watch.cancel()
        if self._why is not None and kind is not None and issubclass(kind, asyncio.CancelledError):
            getattr(self._task, "uncancel", int)()  # from Python 3.11 on, a task counts who cancelled it
            raise self._why from None
