"""Turn accuracies, or a results file with its labels, into the benchmark's scores."""

from collections.abc import Sequence
from pathlib import Path

from prunus.amounts import plural
from prunus.benchmarks import DECATHLON, find_benchmark
from prunus.data.visual_decathlon.submissions import grade, read_labels, read_results
from prunus.errors import DataError
from prunus.measure.score import BenchmarkScore, score_benchmark


def score_accuracies(
    benchmark: str, accuracies: Sequence[float], macs_ratio: float | None = None, params_ratio: float | None = None
) -> BenchmarkScore:
    """Score accuracies in the order of the published tables, as shares or in percent."""
    known = find_benchmark(benchmark)
    if len(accuracies) != len(known.sets):
        names = ", ".join(known.names())
        raise DataError(
            f"{benchmark} has {len(known.sets)} sets ({names}); got {plural(len(accuracies), 'accuracy', 'accuracies')}"
        )
    scale = 100 if max(accuracies) > 1 else 1  # percentages if any value is too large for a share
    wrong = [value for value in accuracies if not 0 <= value <= scale]
    if wrong:
        raise DataError(f"an accuracy lies between 0 and {scale}, got {wrong[0]}")
    shares = {name: value / scale for name, value in zip(known.names(), accuracies, strict=True)}
    return score_benchmark(known, shares, macs_ratio, params_ratio)


def score_results(
    results: str | Path, labels: str | Path, macs_ratio: float | None = None, params_ratio: float | None = None
) -> BenchmarkScore:
    """Grade a Visual Decathlon results file against a folder of `<set>_test.json` labels."""
    grades = grade(read_results(Path(results)), read_labels(Path(labels)))
    accuracies = {name: graded.accuracy for name, graded in grades.items()}
    return score_benchmark(DECATHLON, accuracies, macs_ratio, params_ratio)
