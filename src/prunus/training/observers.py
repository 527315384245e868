"""Observers of a training run: each overrides only the events it is interested in."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any, Concatenate, ParamSpec

from typing_extensions import override

from prunus.errors import MissingExtraError
from prunus.files import storage_error, write_atomically
from prunus.run_folder import EpochReport, read_log

P = ParamSpec("P")


class Observer:
    """Base class of observers; ignores every event."""

    def noted(self, message: str) -> None:
        """Receive a note for the user."""

    def loading(self, domain: str, split: str) -> None:
        """Begin to load the images of a split."""

    def loaded(self, domain: str, done: int, total: int) -> None:
        """Count one more decoded image of a domain."""

    def started(self, step: int, total_steps: int) -> None:
        """Begin or continue training at a step."""

    def stepped(self, step: int, epoch: int) -> None:
        """Finish one optimizer step."""

    def progressed(self, report: EpochReport) -> None:
        """Receive intermediate results within an epoch, without validation accuracies."""

    def epoch_ended(self, report: EpochReport) -> None:
        """Receive the results of a whole epoch."""

    def ended(self) -> None:
        """Clean up after training, whether it succeeded or not."""


Watch = Callable[[str], Sequence[Observer]]  # title of a run -> its observers


class JsonlLog(Observer):
    """A log with one JSON line per epoch; epochs after the last checkpoint are written again on resume."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._began = time.monotonic()

    @override
    def started(self, step: int, total_steps: int) -> None:
        kept = [report for report in read_log(self.path) if report.step <= step]
        self._began = time.monotonic() - (kept[-1].seconds if kept else 0.0)
        write_atomically(self.path, "".join(_line(report) for report in kept).encode())

    @override
    def epoch_ended(self, report: EpochReport) -> None:
        line = _line(replace(report, seconds=round(time.monotonic() - self._began, 3)))
        try:
            with self.path.open("a") as file:
                file.write(line)
        except OSError as error:
            raise storage_error(self.path, error) from error


def _line(report: EpochReport) -> str:
    return json.dumps(asdict(report)) + "\n"


class TensorBoardLog(Observer):
    """The log as curves for TensorBoard; on resume, points after the last checkpoint are removed."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._writer: Any = None

    @override
    def started(self, step: int, total_steps: int) -> None:
        try:
            from torch.utils.tensorboard import SummaryWriter  # noqa: PLC0415  # optional package
        except ImportError:
            raise MissingExtraError("tensorboard", "train", "logging curves") from None
        self._writer = SummaryWriter(str(self._folder), purge_step=step + 1)

    @override
    def epoch_ended(self, report: EpochReport) -> None:
        for domain, progress in report.domains.items():
            for name, value in asdict(progress).items():
                if value is not None:
                    self._writer.add_scalar(f"{name}/{domain}", value, report.step)
        for name in ("union", "intersection", "sharing_multiplier"):
            self._writer.add_scalar(f"model/{name}", getattr(report, name), report.step)

    @override
    def ended(self) -> None:
        self._writer.close()


def _pass_on(event: Callable[Concatenate[Observer, P], None]) -> Callable[Concatenate[Observers, P], None]:
    """Return a method that passes an event on to every observer."""

    def tell(self: Observers, /, *args: P.args, **kwargs: P.kwargs) -> None:
        for observer in self.observers:
            getattr(observer, event.__name__)(*args, **kwargs)

    return tell


class Observers(Observer):
    """Several observers as one."""

    def __init__(self, observers: Sequence[Observer]) -> None:
        self.observers = observers

    noted = _pass_on(Observer.noted)
    loading = _pass_on(Observer.loading)
    loaded = _pass_on(Observer.loaded)
    started = _pass_on(Observer.started)
    stepped = _pass_on(Observer.stepped)
    progressed = _pass_on(Observer.progressed)
    epoch_ended = _pass_on(Observer.epoch_ended)
    ended = _pass_on(Observer.ended)
