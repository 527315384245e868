"""The scores of the Visual Decathlon and of the paper: pure arithmetic on accuracies and cost ratios."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Scores:
    """S rewards doing well everywhere; S_O and S_P divide it by the cost; S_E compares with the feature extractor."""

    s: float
    s_o: float | None
    s_p: float | None
    s_e: float | None


def decathlon_score(accuracies: Sequence[float], finetuned: Sequence[float]) -> float:
    """Compute S = sum of 1000 (max(0, E_max - E) / E_max)^2, with E_max twice the error of fine-tuning."""
    total = 0.0
    for accuracy, reference in zip(accuracies, finetuned, strict=True):
        largest_error = 2 * (1 - reference)
        error = 1 - accuracy
        # a fine-tuned network without error leaves no room: only another without error scores, and fully
        total += 1000 * (max(0.0, largest_error - error) / largest_error) ** 2 if largest_error else 1000 * (error == 0)
    return total


def efficiency_scores(
    score: float, macs_ratio: float | None, params_ratio: float | None, feature_score: float | None = None
) -> Scores:
    """Compute S_O = S / MACs, S_P = S / params and S_E = S_O S_P / the same product of the feature extractor.

    The feature extractor costs exactly the backbone, so that both its ratios are 1 and its product is its S squared.
    """
    by_macs = None if macs_ratio is None else score / macs_ratio
    by_params = None if params_ratio is None else score / params_ratio
    known = by_macs is not None and by_params is not None and feature_score
    efficiency = by_macs * by_params / feature_score**2 if known else None  # type: ignore[operator]
    return Scores(score, by_macs, by_params, efficiency)
