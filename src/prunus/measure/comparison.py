"""The result of `prunus compare`: one row per method and budget."""

from __future__ import annotations

from pydantic import Field, JsonValue

from prunus.measure.evaluation import Evaluation
from prunus.measure.result import Result, Share
from prunus.measure.score import Scores


class ComparisonRow(Result):
    """One method with one budget.

    Args:
        name: also the name of its run folder.
        options: settings in which it differs from the method's defaults.
        largest_usage: usage of the domain that uses most.
        scores: None where there is nothing to compare with.
    """

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
    scores: Scores | None
    seconds: Share | None = None

    @classmethod
    def of(cls, name: str, results: Evaluation, options: dict[str, JsonValue], scores: Scores | None) -> ComparisonRow:
        """Make the row of a measured run."""
        fields = {key: getattr(results, key) for key in cls.model_fields if hasattr(results, key)}
        return cls.model_validate(fields | {"name": name, "options": options, "scores": scores})


class Comparison(Result):
    """Methods trained side by side on one recipe.

    Args:
        settings: the recipe without its domains, method, sharing loss and budget.
        failed: name of a row -> why it could not be trained.
    """

    domains: tuple[str, ...]
    backbone: str
    split: str
    settings: dict[str, JsonValue] = Field(default_factory=dict)
    rows: tuple[ComparisonRow, ...]
    failed: dict[str, str] = Field(default_factory=dict)
