"""Put the results of a comparison into one table."""

from collections.abc import Sequence
from pathlib import Path

from prunus.comparison.plan import REQUIRED, Entry, changed_options
from prunus.comparison.trials import Outcome
from prunus.config import Recipe
from prunus.files import write_atomically
from prunus.measure.comparison import Comparison, ComparisonRow
from prunus.measure.evaluation import Evaluation
from prunus.measure.score import FEATURE, FINETUNE, decathlon_score, efficiency_scores
from prunus.report.comparison import FORMATS


def is_complete(outcome: Outcome) -> bool:
    """Return whether the rows that the scores compare with are measured."""
    return all(name in outcome.results for name in REQUIRED)


def tabulate(entries: Sequence[Entry], outcome: Outcome, recipe: Recipe, split: str) -> Comparison:
    """Score every measured entry against fine-tuning and the feature extractor."""
    finetuned = _accuracies(outcome.results[FINETUNE])
    feature_score = decathlon_score(_accuracies(outcome.results[FEATURE]), finetuned)
    return Comparison(
        domains=tuple(choice.name for choice in recipe.domains),
        backbone=recipe.backbone.name,
        split=split,
        settings=recipe.model_dump(mode="json", exclude={"domains", "method", "sharing", "budget"}),
        rows=tuple(
            _row(entry, outcome.results[entry.name], finetuned, feature_score)
            for entry in entries
            if entry.name in outcome.results
        ),
        failed=dict(outcome.failed),
    )


def write_comparison(folder: Path, comparison: Comparison) -> None:
    """Write a comparison in every format."""
    for suffix, text_of in FORMATS.items():
        write_atomically(folder / f"comparison.{suffix}", text_of(comparison).encode())


def _row(entry: Entry, results: Evaluation, finetuned: Sequence[float], feature_score: float) -> ComparisonRow:
    score = decathlon_score(_accuracies(results), finetuned)
    scores = efficiency_scores(score, results.macs_ratio, results.params_ratio, feature_score)
    return ComparisonRow.of(entry.name, results, changed_options(entry.recipe), scores)


def _accuracies(results: Evaluation) -> list[float]:
    return list(results.accuracies.values())
