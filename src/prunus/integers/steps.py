"""The steps of a lowered program, as plain data: engines only have to follow them.

A step makes one value, numbered from 1 in the order of the steps; value 0 is the image. Steps that compute with
integers have all their factors ready, for every domain.

Legend: D = domains, C = channels, O = output channels, I = inputs, K = classes, F = features.
"""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from prunus.arrays import Bytes, Doubles, Floats, Integers
from prunus.graph.operations import Attention, Conv, Operation, Pool, Shape

Codes = npt.NDArray[np.int8]


@dataclass(frozen=True)
class Step:
    """One step; `inputs` are the numbers of lowered values."""

    inputs: tuple[int, ...]
    shape: Shape


@dataclass(frozen=True)
class FloatStep(Step):
    """An operation of the graph, computed in float32."""

    number: int
    operation: Operation


@dataclass(frozen=True)
class QuantizeStep(Step):
    """code = rint(clamp(fl(fl(x * inverse) + zero), 0, 255))."""

    inverses: Floats  # (D,)
    zeros: Integers  # (D,)


@dataclass(frozen=True)
class DequantizeStep(Step):
    """x = fl(fl(code - zero) * scale)."""

    scales: Floats  # (D,)
    zeros: Integers  # (D,)


@dataclass(frozen=True)
class Limited(Step):
    """A step whose result is clamped, in float32, before it is rounded to a code."""

    lows: Integers  # (D,)
    highs: Integers  # (D,)


@dataclass(frozen=True)
class ConvolutionStep(Limited):
    """t = fl(fl(fl(sum) * multiplier) + offset), then with a second input t = fl(t + fl(fl(code) * residual)).

    The sum is of products of weight codes and input codes; the padding has the code `zero` of the input.
    """

    number: int
    conv: Conv
    zeros: Integers  # (D,)
    multipliers: Floats  # (D, O)
    offsets: Floats  # (D, O)
    residuals: Floats  # (D,)


@dataclass(frozen=True)
class AffineStep(Limited):
    """t = fl(fl(fl(code) * multiplier) + offset)."""

    multipliers: Floats  # (D, C)
    offsets: Floats  # (D, C)


@dataclass(frozen=True)
class TableStep(Step):
    """A code for every code."""

    tables: Bytes  # (D, 256)


@dataclass(frozen=True)
class SumStep(Limited):
    """t = fl(fl(fl(fl(a) * first) + fl(fl(b) * second)) + offset)."""

    factors: Floats  # (D, 3)


@dataclass(frozen=True)
class ProductStep(Limited):
    """t = fl(fl(fl((a - zero of a) * (b - zero of b)) * multiplier) + offset)."""

    zeros: Integers  # (D, 2)
    factors: Floats  # (D, 2)


@dataclass(frozen=True)
class JoinStep(Step):
    """The channels of all inputs, each through a table of its own if its coding differs, then channels of zeros."""

    tables: tuple[tuple[Bytes | None, ...], ...]  # (D, I), 256 codes each
    zeros: Integers  # (D,)


@dataclass(frozen=True)
class PoolStep(Step):
    """The largest code of every window, or t = fl(fl(fl(sum of (code - zero)) * fl(factor / pixels)) + offset)."""

    pool: Pool
    zeros: Integers  # (D,)
    factors: Doubles  # (D,)
    offsets: Floats  # (D,)


@dataclass(frozen=True)
class MeanStep(Step):
    """t = fl(fl(fl(sum of (code - zero)) * factor) + offset), over all pixels."""

    zeros: Integers  # (D,)
    factors: Floats  # (D,)
    offsets: Floats  # (D,)


@dataclass(frozen=True)
class AttentionStep(Step):
    """Weighted means of codes, head by head: the weights are codes as well, 255 for the largest of a query.

    A score is t = fl(fl(sum) * multiplier), where the sum is of (q - zero of q) * (k - 128), then with a bias
    t = fl(t + bias), and t = fl(t + apart) where a border is between the pixels. With u = max(fl(t - the largest t of
    the query), -16), n = rint(u) and f = fl(u - n), the weight is p = rint(fl(P(f) * 255 * 2^n)) with
    P(f) = fl(1 + fl(f * fl(c1 + ...))), see `powers.py`. The result is fl(fl(fl(sum of p * (v - zero of v)) *
    fl(factor / fl(sum of p))) + zero of the result). Scores are logarithms to the base of 2.
    """

    attention: Attention
    zeros: Integers  # (D, 3): of q, v and the result
    multipliers: Floats  # (D,)
    factors: Floats  # (D,)
    biases: Floats | None  # (D, heads, pixels of q, pixels of k)
    apart: float  # a float32


@dataclass(frozen=True)
class IntegerHead:
    """logit = fl(fl(fl(sum) * multiplier) + offset), where the sum is of products of weight codes and feature codes."""

    weight: Codes  # (K, F)
    multipliers: Floats  # (K,)
    offsets: Floats  # (K,)
