"""The results of `prunus compare` and `prunus sweep`: one row per method and budget, over one or more seeds."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Mapping, Sequence

from pydantic import Field, JsonValue

from prunus.measure.budget import KernelShare
from prunus.measure.evaluation import Evaluation
from prunus.measure.result import Amount, Result, Share
from prunus.measure.score import Scores
from prunus.uncertainty import Interval, is_noise
from prunus.uncertainty import over_seeds as interval_over_seeds

COSTS = ("stored_bytes", "macs_ratio")  # what a Pareto front weighs against the mean accuracy

Average = Callable[[Sequence[float]], float]


class Spread(Result):
    """Standard deviations over the seeds of a row, with n - 1 in the denominator."""

    union: Amount
    macs_ratio: Amount
    params_ratio: Amount
    stored_bytes: Amount
    accuracies: dict[str, Amount]
    mean_accuracy: Amount
    scores: Scores | None


class ComparisonRow(Result):
    """One method with one budget; with several seeds, every number is a mean over them.

    Args:
        name: also the name of its run folder; further seeds append theirs.
        options: settings in which it differs from the method's defaults.
        largest_usage: usage of the domain that uses most, over all seeds.
        images: number of test images of every domain.
        accuracy_intervals: 95 %, from the number of images and, with several seeds, from their spread too; empty in
            files of earlier versions, like `images`.
        mean_accuracy_interval: likewise, of the mean over domains.
        scores: None where there is nothing to compare with.
        seeds: those that were measured; files of earlier versions do not name their seed.
        spread: None with one seed.
        budget_kept: with every seed; None without a budget, and in files of earlier versions.
    """

    added = ("images", "accuracy_intervals", "mean_accuracy_interval", "seeds", "spread", "budget_kept")

    name: str
    method: str
    options: dict[str, JsonValue]
    budget: Share | None
    largest_usage: Share
    union: Share
    macs_ratio: Share
    params_ratio: Share
    stored_bytes: int
    accuracies: dict[str, Share]
    mean_accuracy: Share
    images: dict[str, int] = Field(default_factory=dict)
    accuracy_intervals: dict[str, Interval] = Field(default_factory=dict)
    mean_accuracy_interval: Interval | None = None
    scores: Scores | None
    seconds: Amount | None = None
    seeds: tuple[int, ...] = ()
    spread: Spread | None = None
    budget_kept: bool | None = None

    @property
    def is_over_budget(self) -> bool:
        """Return whether the budget is exceeded; files of earlier versions know shares only."""
        if self.budget_kept is not None or self.budget is None:
            return self.budget_kept is False
        sharing = self.options.get("sharing", self.method)  # methods are called like their sharing losses
        return bool(KernelShare.of(self.budget, str(sharing)).exceeded({self.name: self.largest_usage}, self.union))

    @classmethod
    def of(cls, name: str, results: Evaluation, options: dict[str, JsonValue], scores: Scores | None) -> ComparisonRow:
        """Make the row of a measured run."""
        fields = {key: getattr(results, key) for key in cls.model_fields if hasattr(results, key)}
        return cls.model_validate(fields | {"name": name, "options": options, "scores": scores})


class Comparison(Result):
    """Methods trained side by side on one recipe.

    Args:
        settings: the recipe without its domains, method, sharing loss and budget.
        failed: name of a run -> why it could not be trained.
        unmeasured: domains without labelled images in this split -> why they were skipped.
        source: name of the domain that the backbone was pretrained on; None if it is not one of the domains.
    """

    added = ("unmeasured", "source")

    domains: tuple[str, ...]
    backbone: str
    split: str
    settings: dict[str, JsonValue] = Field(default_factory=dict)
    rows: tuple[ComparisonRow, ...]
    failed: dict[str, str] = Field(default_factory=dict)
    unmeasured: dict[str, str] = Field(default_factory=dict)
    source: str | None = None


class Sweep(Comparison):
    """The trials of a sweep, without scores.

    Args:
        fronts: cost -> names of the rows on its Pareto front, cheapest first, without those over their budgets.
    """

    fronts: dict[str, tuple[str, ...]] = Field(default_factory=dict)


def over_seeds(rows: Mapping[int, ComparisonRow]) -> ComparisonRow:
    """Join the rows of one method and budget, by seed, into one of means and standard deviations."""
    seeds = tuple(rows)
    first, *others = rows.values()
    if not others:
        return first.model_copy(update={"seeds": seeds})
    averaged = _apply(statistics.fmean, list(rows.values()))
    averaged["stored_bytes"] = round(statistics.fmean(row.stored_bytes for row in rows.values()))
    times = [row.seconds for row in rows.values() if row.seconds is not None]
    joined = {
        "largest_usage": max(row.largest_usage for row in rows.values()),
        "seconds": statistics.fmean(times) if times else None,
        "seeds": seeds,
        "budget_kept": None if first.budget_kept is None else all(row.budget_kept for row in rows.values()),
        "spread": _apply(statistics.stdev, list(rows.values())),
        **_intervals(list(rows.values())),
    }
    return ComparisonRow.model_validate(dict(first) | averaged | joined)


def _intervals(rows: Sequence[ComparisonRow]) -> dict[str, object]:
    """Join the intervals of several seeds."""
    means = [row.mean_accuracy_interval for row in rows if row.mean_accuracy_interval]
    if len(means) < len(rows):
        return {}
    names = rows[0].accuracies
    domains = {
        name: interval_over_seeds(
            [row.accuracies[name] for row in rows], [row.accuracy_intervals[name] for row in rows]
        )
        for name in names
    }
    mean = interval_over_seeds([row.mean_accuracy for row in rows], means)
    return {"accuracy_intervals": domains, "mean_accuracy_interval": mean}


def near_best(rows: Sequence[ComparisonRow]) -> list[int]:
    """Return the indices of the rows whose mean accuracy may be lower than the best one by chance only."""
    best = max(rows, key=lambda row: row.mean_accuracy, default=None)
    if best is None or best.mean_accuracy_interval is None:
        return []
    high = (best.mean_accuracy, best.mean_accuracy_interval)
    return [
        index
        for index, row in enumerate(rows)
        if row is not best
        and row.mean_accuracy_interval
        and is_noise(*high, row.mean_accuracy, row.mean_accuracy_interval)
    ]


def _apply(average: Average, rows: Sequence[ComparisonRow]) -> dict[str, object]:
    """Apply a function to the rows' values of every number that has a spread."""
    keys = ("union", "macs_ratio", "params_ratio", "stored_bytes", "mean_accuracy")
    numbers: dict[str, object] = {key: average([getattr(row, key) for row in rows]) for key in keys}
    names = rows[0].accuracies
    accuracies = {name: average([row.accuracies[name] for row in rows]) for name in names}
    return numbers | {"accuracies": accuracies, "scores": _apply_to_scores(average, [row.scores for row in rows])}


def _apply_to_scores(average: Average, scores: Sequence[Scores | None]) -> dict[str, float | None] | None:
    present = [row for row in scores if row is not None]
    if len(present) < len(scores):
        return None
    values = {key: [getattr(row, key) for row in present] for key in Scores.model_fields}
    return {key: None if None in column else average(column) for key, column in values.items()}


def front(rows: Sequence[ComparisonRow], cost: str) -> list[int]:
    """Return the indices of the rows on the Pareto front of a cost, cheapest first; none is over its budget."""
    allowed = [index for index, row in enumerate(rows) if not row.is_over_budget]
    found = pareto_front([(getattr(rows[index], cost), rows[index].mean_accuracy) for index in allowed])
    return [allowed[place] for place in found]


def pareto_front(points: Sequence[tuple[float, float]]) -> list[int]:
    """Return the indices of the points (cost, accuracy) that no other point beats, cheapest first."""
    front: list[int] = []
    for index in sorted(range(len(points)), key=lambda i: (points[i][0], -points[i][1])):
        if not front or points[index][1] > points[front[-1]][1]:
            front.append(index)
    return front
