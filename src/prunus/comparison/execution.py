"""Run trials that are not finished, and collect what each of them measured."""

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from prunus.comparison.plan import Entry
from prunus.comparison.trials import Trial
from prunus.errors import BackboneError, TrainingError, TrainingInterrupted
from prunus.measure.evaluation import Evaluation
from prunus.training.observers import Observer, Watch

# of one trial; torch raises RuntimeError, for example when memory is short
FAILURES = (TrainingError, BackboneError, RuntimeError)


@dataclass(frozen=True)
class Ended:
    """The end of a trial.

    Args:
        reason: why it could not be trained; None if it could.
        stops_all: whether the reason concerns all trials, such as an image that cannot be read.
    """

    name: str
    reason: str | None = None
    stops_all: bool = False


class Executor(Protocol):
    """A way to run trials; it calls `ended` for each, and returns when all have ended."""

    def run(self, trials: Sequence[Trial], watch: Watch, ended: Callable[[Ended], None]) -> None:
        """Run trials, and stop those that are running if `ended` raises an error."""
        ...


@dataclass(frozen=True)
class Outcome:
    """The results of trials so far.

    Args:
        results: name of a trial -> what was measured.
        failed: name of a trial -> why it could not be trained.
    """

    results: dict[str, Evaluation]
    failed: dict[str, str]


@dataclass(frozen=True)
class OneByOne:
    """Trials are run in this process, one after the other; none begins after a time of the monotonic clock."""

    until: float = math.inf

    def run(self, trials: Sequence[Trial], watch: Watch, ended: Callable[[Ended], None]) -> None:
        """Run trials; an error that concerns all of them is raised as it is."""
        for trial in trials:
            if time.monotonic() > self.until:
                return
            try:
                ended(attempt(trial, watch(trial.title)))
            except (TrainingInterrupted, KeyboardInterrupt):
                raise TrainingInterrupted(
                    f"at {trial.name}; finished work is saved: continue with the same command"
                ) from None


def attempt(trial: Trial, observers: Sequence[Observer]) -> Ended:
    """Run a trial; an error that concerns only this one becomes the reason why it failed."""
    try:
        trial.run(observers)
    except TrainingInterrupted:
        raise
    except FAILURES as error:
        return Ended(trial.name, str(error).partition("\n")[0] or type(error).__name__)
    return Ended(trial.name)


@dataclass(frozen=True)
class Trials:
    """The planned trials, and where and how they are run.

    Args:
        required: groups without which no result is of use: they come first, and their failure stops everything.
    """

    entries: Sequence[Entry]
    folder: Path
    split: str
    device: str
    use_cache: bool
    required: Sequence[str] = ()

    def run(self, executor: Executor, watch: Watch, report: Callable[[Outcome], None]) -> None:
        """Run what is not finished, and report the outcome at the beginning and after each trial."""
        trials = {trial.name: trial for trial in self._ordered()}
        results = {name: done for name, trial in trials.items() if (done := trial.finished()) is not None}
        failed: dict[str, str] = {}

        def ended(end: Ended) -> None:
            trial = trials[end.name]
            done = trial.finished() if end.reason is None else None
            reason = end.reason or f"its results are not in {trial.files.path}; all machines must share this folder"
            if done is not None:
                results[end.name] = done
            elif end.stops_all or trial.entry.group in self.required:
                raise TrainingError(f"{end.name}: {reason}")
            else:
                failed[end.name] = reason
            report(Outcome(dict(results), dict(failed)))

        report(Outcome(dict(results), {}))
        executor.run([trial for name, trial in trials.items() if name not in results], watch, ended)
        if open_ones := len(trials) - len(results) - len(failed):
            raise TrainingInterrupted(
                f"in time, with {open_ones} of {len(trials)} training runs to do; finished work is saved: "
                "continue with the same command"
            )

    def _ordered(self) -> list[Trial]:
        ordered = sorted(self.entries, key=lambda entry: entry.group not in self.required)
        total = len(ordered)
        return [
            Trial(entry, self.folder, self.split, self.device, self.use_cache, f"{number}/{total} {entry.name}")
            for number, entry in enumerate(ordered, 1)
        ]
