"""The scores of the Visual Decathlon and of the paper, computed from accuracies and cost ratios."""

import math
from collections.abc import Mapping, Sequence

from prunus.benchmarks import Benchmark
from prunus.errors import DataError
from prunus.measure.result import Result

FEATURE = "feature"  # the method that S_E compares with
FINETUNE = "finetune"  # the method that S compares with
SMALLEST_RATIO = 1e-6


class Scores(Result):
    """S rewards doing well everywhere; S_O and S_P divide it by the cost; S_E compares with the feature extractor."""

    s: float
    s_o: float | None
    s_p: float | None
    s_e: float | None


class BenchmarkScore(Result):
    """The scores of one method on a benchmark, and the numbers they were computed from."""

    benchmark: str
    accuracies: dict[str, float]
    sets_in_benchmark: int
    feature_score: float
    scores: Scores


def decathlon_score(accuracies: Sequence[float], finetuned: Sequence[float]) -> float:
    """Compute S = sum of 1000 (max(0, E_max - E) / E_max)^2, where E_max is twice the error of fine-tuning."""
    return sum(_domain_score(*pair) for pair in zip(accuracies, finetuned, strict=True))


def _domain_score(accuracy: float, finetuned: float) -> float:
    largest_error = 2 * (1 - finetuned)
    if largest_error == 0:  # fine-tuning makes no error, so only a network without error scores
        return 1000.0 if accuracy == 1 else 0.0
    return 1000 * (max(0.0, largest_error - (1 - accuracy)) / largest_error) ** 2


def efficiency_scores(
    score: float, macs_ratio: float | None, params_ratio: float | None, feature_score: float | None = None
) -> Scores:
    """Compute S_O = S / MACs, S_P = S / params and S_E = S_O S_P / the same product of the feature extractor.

    The feature extractor costs exactly the backbone, so both its ratios are 1 and its product is its S squared.
    A score is None where the cost it divides by is unknown or zero.
    """
    s_o = None if not macs_ratio else score / macs_ratio
    s_p = None if not params_ratio else score / params_ratio
    s_e = None if s_o is None or s_p is None or not feature_score else s_o * s_p / feature_score**2
    return Scores(s=score, s_o=s_o, s_p=s_p, s_e=s_e)


def score_benchmark(
    benchmark: Benchmark, accuracies: Mapping[str, float], macs_ratio: float | None, params_ratio: float | None
) -> BenchmarkScore:
    """Score accuracies on some sets of a benchmark against its published references."""
    for name, ratio in (("macs", macs_ratio), ("params", params_ratio)):
        if ratio is not None and not SMALLEST_RATIO <= ratio < math.inf:
            raise DataError(f"{name} is a ratio to the backbone and must be above 0, got {ratio}")
    references = [benchmark.find(name) for name in accuracies]
    finetuned = [reference.finetune_accuracy for reference in references]
    feature_score = decathlon_score([reference.feature_accuracy for reference in references], finetuned)
    score = decathlon_score(list(accuracies.values()), finetuned)
    return BenchmarkScore(
        benchmark=benchmark.name,
        accuracies=dict(accuracies),
        sets_in_benchmark=len(benchmark.sets),
        feature_score=feature_score,
        scores=efficiency_scores(score, macs_ratio, params_ratio, feature_score),
    )
