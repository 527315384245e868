"""Turn scores into 0 and 1, with a threshold that passes gradients on unchanged."""

from torch import Tensor

THRESHOLD = 0.0
START_SCORE = 1e-3


def binarize(scores: Tensor, threshold: float = THRESHOLD) -> Tensor:
    """Return 1 where a score is above the threshold, else 0; the backward pass treats it as the identity."""
    hard = (scores > threshold).to(scores.dtype)
    return hard + (scores - scores.detach())  # the bracket is exactly 0; any other grouping would round
