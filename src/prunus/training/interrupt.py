"""Let Ctrl-C end a training run between two steps, where everything can be saved."""

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType


class StopFlag:
    """Whether someone asked to stop."""

    def __init__(self, is_patient: bool) -> None:
        self.is_set = False
        self._is_patient = is_patient

    def set(self, _signal: int, _frame: FrameType | None) -> None:
        """Remember the request; a second one ends the program at once, unless it is patient."""
        if self.is_set and not self._is_patient:
            raise KeyboardInterrupt
        self.is_set = True


@contextmanager
def stop_on_signal(is_patient: bool = False) -> Iterator[StopFlag]:
    """Catch SIGINT and SIGTERM during training; Python allows this in the main thread only.

    Args:
        is_patient: ignore a second signal: torchrun passes on what a terminal has already sent to all processes.
    """
    flag = StopFlag(is_patient)
    if threading.current_thread() is not threading.main_thread():
        yield flag
        return
    handlers = {number: signal.signal(number, flag.set) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield flag
    finally:
        for number, handler in handlers.items():
            signal.signal(number, handler)
