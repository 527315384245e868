"""How many rounds of a benchmark are done, for those who wait for it."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from itertools import count

Watch = Callable[[int, int, int], None]  # the number of threads, rounds done, all of them


def _unwatched(threads: int, done: int, total: int) -> None:
    pass


_WATCH: ContextVar[Watch] = ContextVar("watch", default=_unwatched)


@contextmanager
def rounds_watched_by(watch: Watch) -> Iterator[None]:
    """Call `watch` after every round of a benchmark inside this block."""
    token = _WATCH.set(watch)
    try:
        yield
    finally:
        _WATCH.reset(token)


def counting(threads: int, total: int) -> Callable[[], None]:
    """Return what to call after every round."""
    watch, numbers = _WATCH.get(), count(1)
    return lambda: watch(threads, next(numbers), total)
