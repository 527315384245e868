"""Weights as 8-bit codes, with a scale for each output channel.

Legend: K = kept kernels, O = output channels.
"""

from collections.abc import Callable
from math import prod
from typing import Literal

import numpy as np

from prunus.arrays import Doubles, Floats, Integers
from prunus.bundle.eight_bits.rules import LARGEST_WEIGHT, MAX_SCALE, MIN_SCALE
from prunus.integers.steps import Codes

WeightRule = Literal["largest", "mse"]
SHARES = np.linspace(1.0, 0.6, 17)  # of the largest weight, that the rule "mse" tries as the limit


def code_weights(numbers: Floats, outputs: Integers, count: int, rule: WeightRule) -> tuple[Codes, Floats]:
    """Return the codes of weights, (K, ...), and a scale for each of `count` outputs.

    Args:
        outputs: the output of each row of numbers: (K,).
    """
    rows = numbers.reshape(len(numbers), prod(numbers.shape[1:])).astype(np.float64)
    scale_O = RULES[rule](rows, outputs, count)
    codes = np.clip(np.rint(rows / scale_O[outputs, None]), -LARGEST_WEIGHT, LARGEST_WEIGHT)
    return codes.astype(np.int8).reshape(numbers.shape), scale_O.astype(np.float32)


def _scales(largest_O: Doubles) -> Doubles:
    """Return float32 scales that put the largest weight at the last code; outputs without weights have 1."""
    limited = np.clip(largest_O / LARGEST_WEIGHT, MIN_SCALE, MAX_SCALE)
    return np.where(largest_O > 0, limited, 1.0).astype(np.float32).astype(np.float64)


def _largest(rows: Doubles, outputs: Integers, count: int) -> Doubles:
    largest_O = np.zeros(count)
    np.maximum.at(largest_O, outputs, np.abs(rows).max(axis=1, initial=0.0))
    return largest_O


def _by_largest(rows: Doubles, outputs: Integers, count: int) -> Doubles:
    return _scales(_largest(rows, outputs, count))


def _by_error(rows: Doubles, outputs: Integers, count: int) -> Doubles:
    """Return for each output the scale with the smallest sum of squared errors."""
    largest_O = _largest(rows, outputs, count)
    best_O, least_O = _scales(largest_O), np.full(count, np.inf)
    for share in SHARES:
        scale_O = _scales(largest_O * share)
        steps = rows / scale_O[outputs, None]
        errors = (np.clip(np.rint(steps), -LARGEST_WEIGHT, LARGEST_WEIGHT) - steps) * scale_O[outputs, None]
        error_O = np.bincount(outputs, np.square(errors).sum(axis=1), count)
        is_better = error_O < least_O
        best_O, least_O = np.where(is_better, scale_O, best_O), np.where(is_better, error_O, least_O)
    return best_O


RULES: dict[WeightRule, Callable[[Doubles, Integers, int], Doubles]] = {"largest": _by_largest, "mse": _by_error}
