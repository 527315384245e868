"""Worker threads that do not keep the process alive if a task takes too long."""

import threading
import time
from collections.abc import Callable
from concurrent.futures import Executor, Future
from queue import SimpleQueue
from typing import Any, ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")


class Workers(Executor):
    """A ThreadPoolExecutor with daemon threads: the process can exit while a task is running."""

    def __init__(self, count: int, name: str) -> None:
        self._tasks: SimpleQueue[tuple[Future[Any], Callable[[], Any]] | None] = SimpleQueue()
        self._threads = [
            threading.Thread(target=self._work, name=f"{name}-{number}", daemon=True) for number in range(count)
        ]
        for thread in self._threads:
            thread.start()

    def submit(self, fn: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> Future[T]:
        """Queue a call, and return a future with its result."""
        future: Future[T] = Future()
        self._tasks.put((future, lambda: fn(*args, **kwargs)))
        return future

    def finish(self, seconds: float) -> bool:
        """Stop the threads after their queued calls, and return whether they ended within some seconds."""
        deadline = time.monotonic() + seconds
        for _ in self._threads:
            self._tasks.put(None)
        for thread in self._threads:
            thread.join(max(0.0, deadline - time.monotonic()))
        return not any(thread.is_alive() for thread in self._threads)

    def _work(self) -> None:
        while (task := self._tasks.get()) is not None:
            _settle(*task)
            del task  # otherwise a large image would stay in memory until the next call


def _settle(future: Future[Any], call: Callable[[], Any]) -> None:
    if not future.set_running_or_notify_cancel():
        return
    try:
        result = call()
    except BaseException as error:  # passed on to the caller
        future.set_exception(error)
    else:
        future.set_result(result)
