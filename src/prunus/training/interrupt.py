"""Let Ctrl-C end a training between two steps, where everything can be saved."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType


class StopFlag:
    """Says whether someone asked to stop."""

    def __init__(self) -> None:
        self.is_set = False

    def set(self, _signal: int, _frame: FrameType | None) -> None:
        """Remember the wish; a second one ends the program at once."""
        if self.is_set:
            raise KeyboardInterrupt
        self.is_set = True


@contextmanager
def stop_on_signal() -> Iterator[StopFlag]:
    """Catch SIGINT and SIGTERM while training; only the main thread can."""
    flag = StopFlag()
    if threading.current_thread() is not threading.main_thread():
        yield flag
        return
    before = {number: signal.signal(number, flag.set) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield flag
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
