"""Put the results of trials into one table: a row for each method and budget, over its seeds."""

import statistics
from collections.abc import Callable, Sequence
from pathlib import Path

from prunus.comparison.execution import Outcome
from prunus.comparison.plan import REQUIRED, Entry
from prunus.config import Recipe
from prunus.files import write_atomically
from prunus.measure.comparison import COSTS, Comparison, ComparisonRow, Sweep, front, over_seeds
from prunus.measure.evaluation import Evaluation
from prunus.measure.score import FEATURE, FINETUNE, Scores, decathlon_score, efficiency_scores
from prunus.report.comparison import FORMATS

Score = Callable[[Evaluation], Scores | None]


def is_complete(entries: Sequence[Entry], outcome: Outcome) -> bool:
    """Return whether the rows that the scores compare with are measured, with every seed."""
    return all(entry.name in outcome.results for entry in entries if entry.group in REQUIRED)


def tabulate(entries: Sequence[Entry], outcome: Outcome, recipe: Recipe, split: str) -> Comparison:
    """Score every measured entry against fine-tuning and the feature extractor.

    The references are their mean accuracies over the seeds, so that the spread of a score is the method's own.
    """
    finetuned = _mean_accuracies(entries, outcome, FINETUNE)
    feature_score = decathlon_score(_mean_accuracies(entries, outcome, FEATURE), finetuned)

    def score(results: Evaluation) -> Scores:
        value = decathlon_score(list(results.accuracies.values()), finetuned)
        return efficiency_scores(value, results.macs_ratio, results.params_ratio, feature_score)

    return _table(entries, outcome, recipe, split, score)


def tabulate_sweep(entries: Sequence[Entry], outcome: Outcome, recipe: Recipe, split: str) -> Sweep:
    """List every measured entry, and find the Pareto fronts."""
    table = _table(entries, outcome, recipe, split, lambda _results: None)
    fronts = {cost: tuple(table.rows[index].name for index in front(table.rows, cost)) for cost in COSTS}
    return Sweep.model_validate(dict(table) | {"fronts": fronts})


def write_table(folder: Path, stem: str, table: Comparison) -> None:
    """Write a table in every format."""
    for suffix, text_of in FORMATS.items():
        write_atomically(folder / f"{stem}.{suffix}", text_of(table).encode())


def _table(entries: Sequence[Entry], outcome: Outcome, recipe: Recipe, split: str, score: Score) -> Comparison:
    groups: dict[str, dict[int, ComparisonRow]] = {}
    for entry in entries:
        if results := outcome.results.get(entry.name):
            row = ComparisonRow.of(entry.group, results, entry.options, score(results))
            groups.setdefault(entry.group, {})[entry.recipe.seed] = row
    unmeasured = _unmeasured(recipe, list(outcome.results.values()))
    return Comparison(
        domains=tuple(choice.name for choice in recipe.domains if choice.name not in unmeasured),
        backbone=recipe.backbone.name,
        split=split,
        settings=recipe.model_dump(mode="json", exclude={"domains", "method", "sharing", "budget"}),
        rows=tuple(over_seeds(rows) for rows in groups.values()),
        failed=outcome.failed,
        unmeasured=unmeasured,
        source=recipe.source,
    )


def _unmeasured(recipe: Recipe, results: Sequence[Evaluation]) -> dict[str, str]:
    """Return the domains without an accuracy in some row -> why."""
    reasons: dict[str, str] = {}
    for choice in recipe.domains:
        if any(choice.name not in measured.domains for measured in results):
            told = (measured.unmeasured.get(choice.name) for measured in results)
            reasons[choice.name] = next(filter(None, told), "some runs were measured without it")
    return reasons


def _mean_accuracies(entries: Sequence[Entry], outcome: Outcome, group: str) -> list[float]:
    """Return every domain's accuracy, as the mean over the seeds."""
    measured = [outcome.results[entry.name].accuracies for entry in entries if entry.group == group]
    return [statistics.fmean(accuracies[domain] for accuracies in measured) for domain in measured[0]]
