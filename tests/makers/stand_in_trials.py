"""Trials that train nothing, for processes that start them anew; a trial does what its name says."""

import os
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from typing_extensions import override

from prunus.comparison.trials import Trial
from prunus.errors import DataError, TrainingError, TrainingInterrupted
from prunus.files import write_json
from prunus.run_folder import EpochReport
from prunus.training.interrupt import stop_on_signal
from prunus.training.observers import Observer, Observers
from tests.makers.run_folders import results
from tests.makers.stand_in_trainer import plain_entry

SECONDS_UNTIL_STOPPED = 40


@dataclass(frozen=True)
class StandInTrial(Trial):
    """A trial that succeeds, fails, dies or waits."""

    @override
    def run(self, observers: Sequence[Observer]) -> None:
        kind = self.name.partition("-")[0]
        if kind == "bn":
            self._succeed(Observers(observers))
        elif kind == "taps":
            raise TrainingError("the loss is not a number")
        elif kind == "union":
            raise DataError("an image cannot be read")
        elif kind == "piggyback":
            os._exit(3)
        elif kind == "finetune":
            self._wait(Observers(observers))

    def _succeed(self, observer: Observer) -> None:
        observer.noted(f"{torch.get_num_threads()} threads")
        observer.started(0, 1)
        observer.epoch_ended(EpochReport(0, 1, {}, union=1.0))
        observer.ended()
        content = results("bn", None) | {"recipe": self.entry.recipe.model_dump(mode="json")}
        write_json(self.files.results, content)

    def _wait(self, observer: Observer) -> None:
        with stop_on_signal() as stop:
            observer.started(os.getpid(), 10**9)
            deadline = time.monotonic() + SECONDS_UNTIL_STOPPED
            while not stop.is_set and time.monotonic() < deadline:
                time.sleep(0.01)
        write_json(self.files.path / "stopped.json", {"by_signal": stop.is_set})
        raise TrainingInterrupted("saved")


def stand_in_trials(folder: Path, *names: str) -> list[StandInTrial]:
    """Return one trial for each method's name, with the seeds 0, 1, ..."""
    entries = [plain_entry(name, seed) for seed, name in enumerate(names)]
    return [StandInTrial(entry, folder, "test", "cpu", False, entry.name) for entry in entries]
