"""How a claim of the paper is judged: of parts that are each decided by some rows of the grid."""

from __future__ import annotations

import math
import statistics
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

from benchmarks.study_grid import GRID
from benchmarks.study_results import Runs, StudyRun
from prunus.uncertainty import Interval, accuracy_interval, mean_interval, seeds_reach

Verdict = Literal["holds", "does not hold", "not refuted", "cannot be told from noise", "not enough runs"]
HOLDS: Verdict = "holds"
FAILS: Verdict = "does not hold"
UNREFUTED: Verdict = "not refuted"  # by runs that could refute it, but not show it
NOISE: Verdict = "cannot be told from noise"
UNKNOWN: Verdict = "not enough runs"
OF_SEVERAL: dict[Verdict, str] = {HOLDS: "hold", FAILS: "do not hold", NOISE: NOISE, UNREFUTED: "are not refuted"}


@dataclass(frozen=True)
class Finding:
    """What the runs say.

    Args:
        figures: what was measured, one sentence each.
    """

    verdict: Verdict
    figures: tuple[str, ...] = ()


@dataclass(frozen=True)
class Part:
    """One condition of a claim.

    Args:
        needs: the rows of the grid that decide it.
        judge: what decides it, once those rows are measured.
        each_run: whether every single run must fulfil it, so that one run can refute it while others are missing.
    """

    needs: tuple[str, ...]
    judge: Callable[[Runs], Finding]
    each_run: bool = False

    def find(self, runs: Runs) -> Finding:
        """Judge the condition by the runs that are measured."""
        if not missing_of(self.needs, runs):
            return self.judge(runs)
        if not self.each_run or not all(row(runs, name) for name in self.needs):
            return Finding(UNKNOWN)
        finding = self.judge(runs)
        return finding if finding.verdict == FAILS else Finding(UNKNOWN, finding.figures)


@dataclass(frozen=True)
class Aspect:
    """What has a verdict of its own.

    Args:
        name: what the verdict is about, if the claim has several.
        parts: conditions; all must hold, but for `may_fail` of them.
    """

    name: str
    parts: tuple[Part, ...]
    may_fail: int = 0

    def find(self, runs: Runs) -> Finding:
        """Join the conditions; what too many runs refute does not hold, whatever is missing."""
        findings = [part.find(runs) for part in self.parts]
        count = Counter(finding.verdict for finding in findings)
        figures = tuple(figure for finding in findings for figure in finding.figures)
        if count[FAILS] > self.may_fail:
            return Finding(FAILS, figures)
        if count[HOLDS] >= len(self.parts) - self.may_fail:
            return Finding(HOLDS, figures)
        return Finding(next(verdict for verdict in (UNKNOWN, NOISE, UNREFUTED) if count[verdict]), figures)

    def verdict(self, runs: Runs) -> str:
        """Write the verdict, and whether it rests on one seed, or what is known so far."""
        verdict = self.find(runs).verdict
        if verdict == UNKNOWN:
            return verdict + self._so_far(runs)
        names = {name for part in self.parts for name in part.needs}
        is_single = any(len(GRID[name].seeds) == 1 for name in names)
        return verdict + (" (one seed)" if is_single else "")

    def _so_far(self, runs: Runs) -> str:
        """Say how many conditions are decided, and how."""
        count = Counter(part.find(runs).verdict for part in self.parts)
        total = len(self.parts)
        known = [
            f"{count[verdict]} of {total} conditions {words}" for verdict, words in OF_SEVERAL.items() if count[verdict]
        ]
        return f" (so far {', '.join(known)})" if known else ""


@dataclass(frozen=True)
class Claim:
    """A claim of the paper.

    Args:
        text: what the paper says, in our words.
        paper: the paper's own figures.
        rule: when it holds here.
        note: what else a reader must know to understand the verdict.
    """

    text: str
    paper: str
    rule: str
    aspects: tuple[Aspect, ...]
    note: str = ""

    @property
    def needs(self) -> tuple[str, ...]:
        """List the rows of the grid that decide the claim."""
        parts = [part for aspect in self.aspects for part in aspect.parts]
        return tuple(dict.fromkeys(name for part in parts for name in part.needs))

    def missing(self, runs: Runs) -> list[tuple[str, int]]:
        """List the runs that are needed and not measured yet."""
        return missing_of(self.needs, runs)

    def is_open(self, runs: Runs) -> bool:
        """Return whether some verdict waits for runs."""
        return any(aspect.find(runs).verdict == UNKNOWN for aspect in self.aspects)

    def verdict(self, runs: Runs) -> str:
        """Write the verdicts of all aspects; once if they are the same."""
        verdicts = {aspect.name: aspect.verdict(runs) for aspect in self.aspects}
        if len(set(verdicts.values())) == 1:
            return next(iter(verdicts.values()))
        return "; ".join(f"{name}: {verdict}" for name, verdict in verdicts.items())

    def figures(self, runs: Runs) -> list[str]:
        """List what was measured, also where it decides nothing yet."""
        return [figure for aspect in self.aspects for figure in aspect.find(runs).figures]


@dataclass(frozen=True)
class Difference:
    """Differences that are paired over the seeds, with the half width of their 95 % interval; none for one seed."""

    values: tuple[float, ...]

    @property
    def mean(self) -> float:
        """Return the mean over the seeds."""
        return statistics.fmean(self.values)

    @property
    def spread(self) -> float:
        """Return the half width of the 95 % interval, by Student's distribution; infinite for one seed."""
        count = len(self.values)
        if count < 2:  # one value has no spread
            return math.inf
        return seeds_reach(statistics.stdev(self.values), count)

    @property
    def sign(self) -> int:
        """Return 1 or -1 if the difference is more than noise, and else 0."""
        return 0 if abs(self.mean) <= self.spread else int(math.copysign(1, self.mean))

    def written(self, digits: int = 1) -> str:
        """Write mean and spread."""
        spread = f" ± {self.spread:.{digits}f}" if math.isfinite(self.spread) else " (one seed)"
        return f"{self.mean:+.{digits}f}{spread}"


def missing_of(names: Sequence[str], runs: Runs) -> list[tuple[str, int]]:
    """List the runs of some rows that are not measured yet."""
    return [(name, seed) for name in names for seed in GRID[name].seeds if (name, seed) not in runs]


def row(runs: Runs, name: str) -> list[StudyRun]:
    """Return the measured seeds of a row, in the order of the seeds."""
    return [run for (found, _), run in sorted(runs.items()) if found == name]


def paired(runs: Runs, name: str, other: str, value: Callable[[StudyRun], float]) -> Difference:
    """Return the differences of two rows over the seeds that both have."""
    seeds = [seed for found, seed in sorted(runs) if found == name and (other, seed) in runs]
    return Difference(tuple(value(runs[name, seed]) - value(runs[other, seed]) for seed in seeds))


def accuracy_of_images(run: StudyRun) -> Interval:
    """Return the 95 % interval of the mean accuracy by the number of images, as a share."""
    intervals = {name: accuracy_interval(accuracy, run.images[name]) for name, accuracy in run.accuracies.items()}
    return mean_interval(run.accuracies, intervals)


def reach_of_images(run: StudyRun, other: StudyRun) -> float:
    """Return the half width of the 95 % interval of a difference of accuracies, by the number of images.

    As if each run had been measured on images of its own, so it is too wide rather than too narrow.
    """
    lower, higher = sorted((run, other), key=lambda found: found.mean_accuracy)
    return math.hypot(
        accuracy_of_images(lower)[1] - lower.mean_accuracy, higher.mean_accuracy - accuracy_of_images(higher)[0]
    )


def points(run: StudyRun) -> float:
    """Return the mean accuracy in points."""
    return 100 * run.mean_accuracy


def decided(is_true: bool, *figures: str) -> Finding:
    """Return a finding that no noise can change, or of one seed."""
    return Finding(HOLDS if is_true else FAILS, figures)


def by_sign(sign: int, *figures: str) -> Finding:
    """Return the finding of a difference that must be positive by more than noise."""
    return Finding({1: HOLDS, 0: NOISE, -1: FAILS}[sign], figures)
