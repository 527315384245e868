"""Run a trial in a worker, and carry its events to the observers of the process that started it."""

import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass

from typing_extensions import override

from prunus.comparison.execution import Ended, attempt
from prunus.comparison.trials import Trial
from prunus.errors import PrunusError, TrainingInterrupted
from prunus.run_folder import EpochReport
from prunus.training.observers import Observer

SECONDS_BETWEEN_STEPS = 0.25  # steps are reported no more often


@dataclass(frozen=True)
class Event:
    """A call of one of an observer's methods."""

    method: str
    arguments: tuple[object, ...]

    def tell(self, observer: Observer) -> None:
        """Repeat the call."""
        getattr(observer, self.method)(*self.arguments)


class Relay(Observer):
    """An observer that sends what it observes, but not every step."""

    def __init__(self, send: Callable[[Event], None]) -> None:
        self._send = send
        self._sent_at = 0.0

    @override
    def noted(self, message: str) -> None:
        self._send(Event("noted", (message,)))

    @override
    def started(self, step: int, total_steps: int) -> None:
        self._send(Event("started", (step, total_steps)))

    @override
    def stepped(self, step: int, epoch: int) -> None:
        if time.monotonic() - self._sent_at > SECONDS_BETWEEN_STEPS:
            self._sent_at = time.monotonic()
            self._send(Event("stepped", (step, epoch)))

    @override
    def epoch_ended(self, report: EpochReport) -> None:
        self._send(Event("epoch_ended", (report,)))

    @override
    def ended(self) -> None:
        self._send(Event("ended", ()))


def run_remotely(trial: Trial, send: Callable[[Event], None]) -> Ended:
    """Run a trial in a worker: whatever goes wrong, but a request to stop, is part of how it ended."""
    try:
        return attempt(trial, [Relay(send)])
    except TrainingInterrupted:
        raise
    except PrunusError as error:
        return Ended(trial.name, str(error), stops_all=True)
    except Exception:  # a mistake in the program, which the process that started this one shows
        return Ended(trial.name, traceback.format_exc(), stops_all=True)
