"""Rules that choose the range of numbers that a value's codes stand for."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import numpy as np

from prunus.arrays import Doubles, Floats
from prunus.bundle.eight_bits.rules import LARGEST_CODE, MAX_SCALE, MIN_SCALE

RangeRule = Literal["largest", "percentile", "mse"]
Range = tuple[float, float]
Function = Callable[[Doubles], Doubles]

BINS = 2048
TAIL = 1e-5  # the share of numbers that the rule "percentile" leaves out at each end
SHARES = np.concatenate([np.linspace(1.0, 0.7, 13), np.linspace(0.65, 0.1, 12)])  # of an end, that "mse" tries


@dataclass(frozen=True)
class Histogram:
    """How often numbers of a value occurred, in bins of one width from `low` to `high`."""

    counts: Doubles
    low: float
    high: float

    def centers(self) -> Doubles:
        """Return the middle of every bin."""
        return self.low + (np.arange(len(self.counts)) + 0.5) * (self.high - self.low) / len(self.counts)


def make_histogram(sample: Floats, low: float, high: float) -> Histogram:
    """Count a sample of numbers, of which `low` and `high` are the ends, and zero if it is outside."""
    low, high = min(low, 0.0), max(high, 0.0)
    if high == low:
        high = low + 1e-6
    counts, _ = np.histogram(sample, BINS, (low, high))
    return Histogram(counts.astype(np.float64), low, high)


def coding_of(span: Range) -> tuple[float, int]:
    """Return the scale and the zero that cover a range."""
    low, high = min(span[0], 0.0), max(span[1], 0.0)
    scale = float(np.float32(np.clip((high - low) / LARGEST_CODE, MIN_SCALE, MAX_SCALE)))
    return scale, int(np.clip(np.rint(-low / scale), 0, LARGEST_CODE))


def unchanged(numbers: Doubles) -> Doubles:
    """Return numbers as they are."""
    return numbers


def _ends(histogram: Histogram, function: Function = unchanged) -> Range:
    """Leave nothing out."""
    return histogram.low, histogram.high


def _percentile(histogram: Histogram, function: Function = unchanged) -> Range:
    """Leave out a few numbers at each end."""
    total = np.cumsum(histogram.counts) / max(histogram.counts.sum(), 1)
    width = (histogram.high - histogram.low) / len(total)
    first, last = np.searchsorted(total, TAIL, "right"), np.searchsorted(total, 1 - TAIL)
    return histogram.low + width * float(first), histogram.low + width * (float(last) + 1)


def _least_error(histogram: Histogram, function: Function = unchanged) -> Range:
    """Return the range with the smallest squared error: one end is chosen, the other, the first again.

    Args:
        function: what is computed from the codes; the error is that of its results.
    """
    centers = histogram.centers()
    exact = function(centers)

    def error(span: Range) -> float:
        scale, zero = coding_of(span)
        decoded = (np.clip(np.rint(centers / scale) + zero, 0, LARGEST_CODE) - zero) * scale
        return float(histogram.counts @ np.square(function(decoded) - exact))

    low, high = histogram.low, histogram.high
    for _ in range(2):
        _, high = min(((low, histogram.high * share) for share in SHARES), key=error)
        low, _ = min(((histogram.low * share, high) for share in SHARES), key=error)
    return float(low), float(high)


RULES: dict[RangeRule, Callable[[Histogram, Function], Range]] = {
    "largest": _ends,
    "percentile": _percentile,
    "mse": _least_error,
}
