"""Join the seeds of alternatives, and compare each with the best of ours at the same cost."""

import math
import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from prunus.measure.alternatives.results import OURS, Versus, VersusRow
from prunus.uncertainty import Z, seeds_reach


@dataclass(frozen=True)
class Summary:
    """The rows of one alternative over its seeds.

    Args:
        by_seed: the mean accuracy of every seed.
        accuracies: by domain, means over the seeds.
        correct: by domain, the share of the seeds that classify each image correctly.
        spread: standard deviation of the mean accuracy over the seeds; None with one seed.
        error: standard error of the mean accuracy: of the test images, and of the seeds if there are several.
    """

    name: str
    by_seed: dict[int, float]
    accuracies: dict[str, float]
    correct: dict[str, list[float]]
    mean_accuracy: float
    spread: float | None
    error: float
    total_bytes: float
    macs: float
    milliseconds: float

    @property
    def seeds(self) -> int:
        """Return the number of seeds."""
        return len(self.by_seed)

    @property
    def is_ours(self) -> bool:
        """Return whether the alternative is a model file of Prunus."""
        return self.name.startswith(OURS)


def summarize(versus: Versus) -> list[Summary]:
    """Join the seeds of every alternative, in the order of the titles."""
    groups = {name: [row for row in versus.rows if row.name == name] for name in versus.titles}
    return [_summary(name, rows, versus.images) for name, rows in groups.items() if rows]


def _summary(name: str, rows: Sequence[VersusRow], images: dict[str, int]) -> Summary:
    accuracies = {domain: statistics.fmean(row.accuracies[domain] for row in rows) for domain in rows[0].accuracies}
    by_seed = {row.seed: row.mean_accuracy for row in rows}
    spread = statistics.stdev(by_seed.values()) if len(rows) > 1 else None
    drawn = sum(share * (1 - share) / images[domain] for domain, share in accuracies.items()) / len(accuracies) ** 2
    return Summary(
        name,
        by_seed,
        accuracies,
        {domain: _by_image([row.correct[domain] for row in rows]) for domain in accuracies},
        statistics.fmean(by_seed.values()),
        spread,
        math.sqrt(drawn + (spread or 0.0) ** 2 / len(rows)),
        statistics.fmean(row.total_bytes for row in rows),
        statistics.fmean(statistics.fmean(row.macs.values()) for row in rows),
        statistics.fmean(row.milliseconds for row in rows),
    )


def _by_image(answers: Sequence[str]) -> list[float]:
    return [statistics.fmean(map(int, image)) for image in zip(*answers, strict=True)]


def noise(one: Summary, other: Summary) -> float:
    """Return the half width of the 95 % interval of a difference; what is smaller is no more than noise.

    Both classify the same images, so what counts is how much the difference varies from image to image, and over the
    seeds, which are too few for a normal distribution.
    """
    drawn = 0.0
    for domain, answers in one.correct.items():
        differences = [mine - theirs for mine, theirs in zip(answers, other.correct[domain], strict=True)]
        drawn += statistics.pvariance(differences) / max(1, len(differences) - 1) / len(one.correct) ** 2
    return math.hypot(Z * math.sqrt(drawn), *_of_seeds(one, other))


def _of_seeds(one: Summary, other: Summary) -> list[float]:
    """Return what the seeds add: of the difference if both have the same, as in the study, else of each."""
    if one.by_seed.keys() == other.by_seed.keys():
        differences = [one.by_seed[seed] - other.by_seed[seed] for seed in one.by_seed]
        return [seeds_reach(statistics.stdev(differences), len(differences))] if len(differences) > 1 else []
    return [seeds_reach(summary.spread, summary.seeds) for summary in (one, other) if summary.spread is not None]


@dataclass(frozen=True)
class Verdict:
    """The best of ours that costs no more than another alternative.

    Args:
        ours: None if all of ours cost more.
        difference: our mean accuracy less the other one's.
    """

    rival: str
    ours: str | None
    difference: float
    noise: float

    @property
    def is_noise(self) -> bool:
        """Return whether the difference is too small to tell."""
        return abs(self.difference) <= self.noise


def judge(summaries: Iterable[Summary], cost: str) -> list[Verdict]:
    """Compare every other alternative with the most accurate of ours at no more of a cost."""
    listed = list(summaries)
    ours = [summary for summary in listed if summary.is_ours]
    verdicts = []
    for rival in listed:
        if rival.is_ours:
            continue
        allowed = [summary for summary in ours if getattr(summary, cost) <= getattr(rival, cost)]
        best = max(allowed, key=lambda summary: summary.mean_accuracy, default=None)
        if best is None:
            verdicts.append(Verdict(rival.name, None, 0.0, 0.0))
        else:
            difference = best.mean_accuracy - rival.mean_accuracy
            verdicts.append(Verdict(rival.name, best.name, difference, noise(best, rival)))
    return verdicts
