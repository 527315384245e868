"""Who watches a training: each observer overrides only what it wants to know."""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from prunus.errors import MissingExtraError
from prunus.files import storage_error, write_atomically


@dataclass(frozen=True)
class DomainProgress:
    """How one domain did in an epoch; `validation_accuracy` is None where nothing is held out."""

    loss: float
    train_accuracy: float
    validation_accuracy: float | None
    usage: float
    budget_multiplier: float


@dataclass(frozen=True)
class EpochReport:
    """How all domains stand at the end of an epoch."""

    epoch: int
    step: int
    domains: dict[str, DomainProgress]
    union: float
    intersection: float
    sharing_multiplier: float


class Observer:
    """Sees a training pass by; does nothing by itself."""

    def noted(self, message: str) -> None:
        """Something is worth knowing."""

    def loaded(self, domain: str, done: int, total: int) -> None:
        """One more image of a domain is decoded."""

    def started(self, step: int, total_steps: int) -> None:
        """Training begins, or goes on, at a step."""

    def stepped(self, step: int, epoch: int) -> None:
        """One optimizer step is done."""

    def progressed(self, report: EpochReport) -> None:
        """Some steps of an epoch are done; nothing is measured on validation images yet."""

    def epoch_ended(self, report: EpochReport) -> None:
        """All domains have had their turn."""

    def ended(self) -> None:
        """Training is over, well or not."""


class JsonlLog(Observer):
    """One JSON line per epoch; what was written after the last checkpoint is written again on resume."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._began = time.monotonic()

    def started(self, step: int, total_steps: int) -> None:
        """Drop the lines of steps that will be done again."""
        kept = [entry for entry in read_log(self.path) if entry["step"] <= step]
        self._began = time.monotonic() - (kept[-1]["seconds"] if kept else 0.0)
        write_atomically(self.path, "".join(json.dumps(entry) + "\n" for entry in kept).encode())

    def epoch_ended(self, report: EpochReport) -> None:
        """Append the epoch."""
        entry = asdict(report) | {"seconds": round(time.monotonic() - self._began, 3)}
        try:
            with self.path.open("a") as file:
                file.write(json.dumps(entry) + "\n")
        except OSError as error:
            raise storage_error(self.path, error) from error


def read_log(path: Path) -> list[dict[str, Any]]:
    """Read a log's epochs; a last line that a kill cut short is left out."""
    entries = []
    for line in path.read_text().splitlines() if path.exists() else []:
        try:
            entries.append(json.loads(line))
        except json.JSONDecodeError:
            break
    return entries


class TensorBoardLog(Observer):
    """The same numbers as curves."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._writer: Any = None

    def started(self, step: int, total_steps: int) -> None:
        """Open the event file; points of steps that will be done again are dropped."""
        try:
            from torch.utils.tensorboard import SummaryWriter  # noqa: PLC0415  # optional package
        except ImportError:
            raise MissingExtraError("tensorboard", "train", "logging curves") from None
        self._writer = SummaryWriter(str(self._folder), purge_step=step + 1)

    def epoch_ended(self, report: EpochReport) -> None:
        """Add a point to every curve."""
        for domain, progress in report.domains.items():
            for name, value in asdict(progress).items():
                if value is not None:
                    self._writer.add_scalar(f"{name}/{domain}", value, report.step)
        for name in ("union", "intersection", "sharing_multiplier"):
            self._writer.add_scalar(f"model/{name}", getattr(report, name), report.step)

    def ended(self) -> None:
        """Close the event file."""
        self._writer.close()


class Observers(Observer):
    """Several observers as one."""

    def __init__(self, observers: Sequence[Observer]) -> None:
        self._observers = observers

    def noted(self, message: str) -> None:
        """Tell all."""
        for observer in self._observers:
            observer.noted(message)

    def loaded(self, domain: str, done: int, total: int) -> None:
        """Tell all."""
        for observer in self._observers:
            observer.loaded(domain, done, total)

    def started(self, step: int, total_steps: int) -> None:
        """Tell all."""
        for observer in self._observers:
            observer.started(step, total_steps)

    def stepped(self, step: int, epoch: int) -> None:
        """Tell all."""
        for observer in self._observers:
            observer.stepped(step, epoch)

    def progressed(self, report: EpochReport) -> None:
        """Tell all."""
        for observer in self._observers:
            observer.progressed(report)

    def epoch_ended(self, report: EpochReport) -> None:
        """Tell all."""
        for observer in self._observers:
            observer.epoch_ended(report)

    def ended(self) -> None:
        """Tell all."""
        for observer in self._observers:
            observer.ended()
