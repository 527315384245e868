"""Observers that end a training run at a step."""

import os
import signal

from typing_extensions import override

from prunus.training.observers import Observer


class StopAt(Observer):
    """Sends this process a signal after a step, as Ctrl-C would."""

    def __init__(self, step: int, number: signal.Signals = signal.SIGINT) -> None:
        self._step = step
        self._number = number

    @override
    def stepped(self, step: int, epoch: int) -> None:
        if step == self._step:
            os.kill(os.getpid(), self._number)
