"""Threads that a stop need not wait for: the work of strangers may take longer than anybody's patience."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from concurrent.futures import Executor, Future
from queue import SimpleQueue
from typing import Any, ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")


class Workers(Executor):
    """Works like a ThreadPoolExecutor, whose threads would keep the process alive until their work is done."""

    def __init__(self, count: int, name: str) -> None:
        self._tasks: SimpleQueue[tuple[Future[Any], Callable[[], Any]] | None] = SimpleQueue()
        self._threads = [
            threading.Thread(target=self._work, name=f"{name}-{number}", daemon=True) for number in range(count)
        ]
        for thread in self._threads:
            thread.start()

    def submit(self, fn: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> Future[T]:
        """Queue a call, and give its result to come."""
        future: Future[T] = Future()
        self._tasks.put((future, lambda: fn(*args, **kwargs)))
        return future

    def finish(self, seconds: float) -> bool:
        """End the threads after what they do now, and tell whether they ended within some seconds."""
        deadline = time.monotonic() + seconds
        for _ in self._threads:
            self._tasks.put(None)
        for thread in self._threads:
            thread.join(max(0.0, deadline - time.monotonic()))
        return not any(thread.is_alive() for thread in self._threads)

    def _work(self) -> None:
        while (task := self._tasks.get()) is not None:
            _settle(*task)
            del task  # or a large image would be held until the next one comes


def _settle(future: Future[Any], call: Callable[[], Any]) -> None:
    if not future.set_running_or_notify_cancel():
        return
    try:
        result = call()
    except BaseException as error:  # whoever waits for the result is told
        future.set_exception(error)
    else:
        future.set_result(result)
