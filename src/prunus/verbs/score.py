"""Turn accuracies, or a results file with its labels, into the benchmark's scores."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path

from prunus.benchmarks import DECATHLON, Benchmark, find_benchmark
from prunus.data.submissions import grade, read_labels, read_results
from prunus.errors import DataError
from prunus.measure.result import Result
from prunus.measure.score import Scores, decathlon_score, efficiency_scores

SMALLEST_RATIO = 1e-6


class BenchmarkScore(Result):
    """The scores of one method on a benchmark, and what they were computed from."""

    benchmark: str
    accuracies: dict[str, float]
    sets_in_benchmark: int
    feature_score: float
    scores: Scores


def score_accuracies(
    benchmark: str, accuracies: Sequence[float], macs_ratio: float | None = None, params_ratio: float | None = None
) -> BenchmarkScore:
    """Score accuracies given in the order of the published tables, as shares or in percent."""
    known = find_benchmark(benchmark)
    if len(accuracies) != len(known.sets):
        names = ", ".join(known.names())
        raise DataError(f"{benchmark} has {len(known.sets)} sets ({names}); got {len(accuracies)} accuracies")
    scale = 100 if max(accuracies) > 1 else 1  # percentages, unless all could be shares
    shares = [value / scale for value in accuracies]
    wrong = [value for value in accuracies if not 0 <= value <= scale]
    if wrong:
        raise DataError(f"an accuracy lies between 0 and {scale}, got {wrong[0]}")
    return _score(known, dict(zip(known.names(), shares, strict=True)), macs_ratio, params_ratio)


def score_results(
    results: str | Path, labels: str | Path, macs_ratio: float | None = None, params_ratio: float | None = None
) -> BenchmarkScore:
    """Grade a Visual Decathlon results file against a folder of `<set>_test.json` labels."""
    grades = grade(read_results(Path(results)), read_labels(Path(labels)))
    return _score(DECATHLON, {name: each.accuracy for name, each in grades.items()}, macs_ratio, params_ratio)


def _score(
    benchmark: Benchmark, accuracies: Mapping[str, float], macs: float | None, params: float | None
) -> BenchmarkScore:
    for name, ratio in (("macs", macs), ("params", params)):
        if ratio is not None and not SMALLEST_RATIO <= ratio < math.inf:
            raise DataError(f"{name} is a ratio to the backbone above 0, got {ratio}")
    sets = [benchmark.find(name) for name in accuracies]
    finetuned = [each.finetune_accuracy for each in sets]
    feature = decathlon_score([each.feature_accuracy for each in sets], finetuned)
    scores = efficiency_scores(decathlon_score(list(accuracies.values()), finetuned), macs, params, feature)
    return BenchmarkScore(
        benchmark=benchmark.name,
        accuracies=dict(accuracies),
        sets_in_benchmark=len(benchmark.sets),
        feature_score=feature,
        scores=scores,
    )
