"""The integer steps in numpy, exactly as every engine computes them.

Sums of products are whole numbers that floats hold exactly, so a matrix product of floats computes them. Everything
after them is float32 with one rounding per operation.

Legend: N = images, C = channels, K = classes, F = features.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from prunus.arrays import Array, Bytes, Floats, Values
from prunus.bundle.eight_bits.rules import EXACT_FLOATS, LARGEST_CODE
from prunus.graph.compute import compute as compute_floats
from prunus.graph.compute import convolve
from prunus.integers.attention import attend
from prunus.integers.coding import rounded, to_codes, to_numbers
from prunus.integers.steps import (
    AffineStep,
    AttentionStep,
    ConvolutionStep,
    DequantizeStep,
    FloatStep,
    IntegerHead,
    JoinStep,
    MeanStep,
    PoolStep,
    ProductStep,
    QuantizeStep,
    Step,
    SumStep,
    TableStep,
)

Tensors = Mapping[str, Values]  # of one step and domain; the weight of an integer convolution holds codes


def compute(step: Step, inputs: Sequence[Array], tensors: Tensors, domain: int) -> Array:
    """Compute one step for one domain: inputs and result are (N, C, H, W), floats or codes."""
    return NUMPY[type(step)](step, inputs, tensors, domain)


def classify(head: IntegerHead, features: Bytes) -> Floats:
    """Return the logits (N, K) of coded features (N, F)."""
    sums = features.astype(np.float64) @ head.weight.T.astype(np.float64)
    logits: Floats = sums.astype(np.float32) * head.multipliers + head.offsets
    return logits


def exact_weight(codes: Floats) -> Values:
    """Return dense weight codes (O, I, height, width) in the smallest type in which no sum of products is rounded."""
    largest = np.abs(codes).sum(axis=(1, 2, 3), dtype=np.float64).max(initial=0.0) * LARGEST_CODE
    return codes if largest <= EXACT_FLOATS else codes.astype(np.float64)


def _limited(step: Any, numbers: Floats, domain: int) -> Bytes:  # noqa: ANN401
    return rounded(numbers, int(step.lows[domain]), int(step.highs[domain]))


def _by_channel(numbers_C: Floats) -> Floats:
    return numbers_C[:, None, None]


def _convolution(step: ConvolutionStep, inputs: Sequence[Bytes], tensors: Tensors, domain: int) -> Bytes:
    weight, zero = tensors["weight"], int(step.zeros[domain])
    centred = inputs[0].astype(weight.dtype) - weight.dtype.type(zero)  # so that the padding is zero
    sums = convolve(centred, weight, step.conv, step.conv.groups, step.shape[1:])
    sums += (weight.sum(axis=(1, 2, 3)) * zero)[:, None, None]
    numbers = sums.astype(np.float32) * _by_channel(step.multipliers[domain])
    numbers = numbers + _by_channel(step.offsets[domain])
    if len(inputs) > 1:
        numbers = numbers + inputs[1].astype(np.float32) * step.residuals[domain]
    return _limited(step, numbers, domain)


def _affine(step: AffineStep, inputs: Sequence[Bytes], tensors: Tensors, domain: int) -> Bytes:
    numbers = inputs[0].astype(np.float32) * _by_channel(step.multipliers[domain])
    return _limited(step, numbers + _by_channel(step.offsets[domain]), domain)


def _sum(step: SumStep, inputs: Sequence[Bytes], tensors: Tensors, domain: int) -> Bytes:
    first, second, offset = step.factors[domain]
    numbers = inputs[0].astype(np.float32) * first + inputs[1].astype(np.float32) * second
    return _limited(step, numbers + offset, domain)


def _product(step: ProductStep, inputs: Sequence[Bytes], tensors: Tensors, domain: int) -> Bytes:
    first, second = (codes.astype(np.int32) - int(zero) for codes, zero in zip(inputs, step.zeros[domain], strict=True))
    multiplier, offset = step.factors[domain]
    return _limited(step, (first * second).astype(np.float32) * multiplier + offset, domain)


def _join(step: JoinStep, inputs: Sequence[Bytes], tensors: Tensors, domain: int) -> Bytes:
    result = np.full((len(inputs[0]), *step.shape), step.zeros[domain], np.uint8)
    first = 0
    for codes, table in zip(inputs, step.tables[domain], strict=True):
        result[:, first : first + codes.shape[1]] = codes if table is None else table[codes]
        first += codes.shape[1]
    return result


def _pool(step: PoolStep, inputs: Sequence[Bytes], tensors: Tensors, domain: int) -> Bytes:
    pool, sides = step.pool, step.shape[1:]
    numbers = inputs[0].astype(np.float64) - int(step.zeros[domain])
    if pool.kind == "max":
        largest = compute_floats(pool, [numbers], {}, sides) + int(step.zeros[domain])
        return largest.astype(np.uint8)
    height, width = inputs[0].shape[2:]
    pixels = pool.window_pixels((height, width), sides)
    sums = np.rint(compute_floats(pool, [numbers], {}, sides) * pixels)  # means of whole numbers, as doubles
    factors = (step.factors[domain] / pixels).astype(np.float32)
    return rounded(sums.astype(np.float32) * factors + step.offsets[domain], 0, LARGEST_CODE)


def _mean(step: MeanStep, inputs: Sequence[Bytes], tensors: Tensors, domain: int) -> Bytes:
    codes = inputs[0]
    pixels = codes.shape[2] * codes.shape[3]
    sums = codes.sum(axis=(2, 3), keepdims=True, dtype=np.int64) - pixels * int(step.zeros[domain])
    numbers = sums.astype(np.float32) * step.factors[domain] + step.offsets[domain]
    return rounded(numbers, 0, LARGEST_CODE)


NUMPY: dict[type[Step], Callable[[Any, Sequence[Any], Tensors, int], Array]] = {
    FloatStep: lambda step, inputs, tensors, domain: compute_floats(step.operation, inputs, tensors, step.shape[1:]),
    QuantizeStep: lambda step, inputs, tensors, domain: to_codes(
        inputs[0], step.inverses[domain], int(step.zeros[domain])
    ),
    DequantizeStep: lambda step, inputs, tensors, domain: to_numbers(
        inputs[0], step.scales[domain], int(step.zeros[domain])
    ),
    ConvolutionStep: _convolution,
    AffineStep: _affine,
    TableStep: lambda step, inputs, tensors, domain: step.tables[domain][inputs[0]],
    SumStep: _sum,
    ProductStep: _product,
    JoinStep: _join,
    PoolStep: _pool,
    MeanStep: _mean,
    AttentionStep: attend,
}
