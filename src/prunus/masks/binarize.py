"""Scores to 0/1 and back: the threshold that gradients pass through unchanged."""

from __future__ import annotations

from torch import Tensor

THRESHOLD = 0.0
START_SCORE = 1e-3


def binarize(scores: Tensor, threshold: float = THRESHOLD) -> Tensor:
    """Give 1 where a score is above the threshold, else 0; in the backward pass the threshold is the identity."""
    hard = (scores > threshold).to(scores.dtype)
    return hard + (scores - scores.detach())  # the bracket is exactly 0; any other grouping would round the ones
