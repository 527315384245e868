"""The integer step of every operation, with its factors and tables.

This is the one place where they are computed: in double precision, then rounded to float32.

Legend: D = domains, C = channels, O = output channels, K = classes, F = features.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from prunus.arrays import Bools, Bytes, Doubles, Floats, Integers
from prunus.bundle.bundle import Bundle
from prunus.bundle.coding.bits import unpack_bits
from prunus.bundle.eight_bits.rules import LARGEST_CODE, PLAIN
from prunus.errors import BundleError
from prunus.graph.activations import ACTIVATIONS
from prunus.graph.operations import (
    Activated,
    Add,
    Affine,
    AppendZeros,
    Attention,
    Cat,
    Conv,
    Mean,
    Mul,
    Pool,
    Shape,
)
from prunus.integers.coding import Codings, nearest_codes
from prunus.integers.steps import (
    AffineStep,
    AttentionStep,
    ConvolutionStep,
    IntegerHead,
    JoinStep,
    MeanStep,
    PoolStep,
    ProductStep,
    Step,
    SumStep,
    TableStep,
)

LOG2_E = math.log2(math.e)
MAX_FACTOR = 2.0**64  # larger ones could make products that are not finite


@dataclass(frozen=True)
class Coded:
    """A bundle, and the codings of the values of its graph."""

    bundle: Bundle
    coding: dict[int, Codings]

    @property
    def shapes(self) -> list[Shape]:
        """Return the shape of every value."""
        return self.bundle.manifest.shapes

    def tensor(self, number: int, role: str) -> Doubles | None:
        """Return a tensor of all domains, (D, ...); None if the operation has none."""
        rows = [self.bundle.tensor(domain, number, role) for domain in self.bundle.domains]
        present = [row for row in rows if row is not None]
        return np.stack(present).astype(np.float64) if present else None

    def limits(self, number: int, operation: Activated) -> tuple[Integers, Integers]:
        """Return the lowest and the highest code that an activation leaves."""
        scales_D, zeros_D = self.coding[number + 1].doubles()
        none_D = np.zeros_like(zeros_D)
        lows = none_D if operation.activation == "none" else zeros_D
        highs = none_D + LARGEST_CODE
        if operation.activation == "relu6":
            highs = np.minimum(highs, zeros_D + np.rint(6.0 / scales_D))
        return lows.astype(np.int64), highs.astype(np.int64)


def _factors(number: int, numbers: Doubles) -> Floats:
    """Round factors to float32; refuse those that a sum could overflow with."""
    if not (np.abs(numbers) <= MAX_FACTOR).all():  # also NaN
        raise BundleError(f"the factors of its 8-bit operation {number} are too large")
    return numbers.astype(np.float32)


def _convolution(coded: Coded, number: int, conv: Conv, inputs: tuple[int, ...]) -> Step:
    source, result = coded.coding[conv.inputs[0]], coded.coding[number + 1]
    (s_x, z_x), (s_y, z_y) = source.doubles(), result.doubles()
    weights = coded.bundle.arrays[f"scale/{conv.layer}"].astype(np.float64)
    gain, bias = coded.tensor(number, "scale"), coded.tensor(number, "bias")
    with np.errstate(over="ignore", invalid="ignore"):
        real_DO = s_x[:, None] * weights * (1.0 if gain is None else gain)  # of one unit of the sum
        offset_DO = (0.0 if bias is None else bias) - real_DO * z_x[:, None] * _code_sums(coded.bundle, conv.layer)
        offset_DO = offset_DO / s_y[:, None] + z_y[:, None]
        residual_D = np.zeros_like(s_y)
        if len(inputs) > 1:
            s_r, z_r = coded.coding[conv.inputs[1]].doubles()
            residual_D = s_r / s_y
            offset_DO = offset_DO - (residual_D * z_r)[:, None]
        multiplier_DO = real_DO / s_y[:, None]
    lows, highs = coded.limits(number, conv)
    return ConvolutionStep(
        inputs,
        coded.shapes[number + 1],
        lows,
        highs,
        number,
        conv,
        source.zeros,
        _factors(number, multiplier_DO),
        _factors(number, offset_DO),
        _factors(number, residual_D),
    )


def _code_sums(bundle: Bundle, layer: str) -> Doubles:
    """Return the sums of the weight codes that each domain uses: (D, O)."""
    conv = bundle.manifest.convs[layer]
    outputs = bundle.kept_outputs(layer)
    sums_K = bundle.arrays[f"kernels/{layer}"].sum(axis=(1, 2), dtype=np.int32)
    order = None if conv.kernel == (1, 1) else np.argsort(outputs, kind="stable")  # those of one pixel are in order
    if order is not None:
        outputs, sums_K = outputs[order], sums_K[order]
    ends = np.searchsorted(outputs, np.arange(conv.out_channels + 1))
    totals = np.zeros(len(outputs) + 1, np.int32)  # they may wrap around, but their differences are right
    rows = np.empty((len(bundle.domains), conv.out_channels))
    for row, domain in zip(rows, bundle.domains, strict=True):
        used: Bools = unpack_bits(bundle.packed_mask(domain, layer), len(outputs))
        np.cumsum(sums_K * (used if order is None else used[order]), out=totals[1:])
        row[:] = np.diff(totals[ends])
    return rows


def _affine(coded: Coded, number: int, affine: Affine, inputs: tuple[int, ...]) -> Step:
    source, result = coded.coding[affine.inputs[0]], coded.coding[number + 1]
    shape = coded.shapes[number + 1]
    if affine.activation not in PLAIN:
        tables_D = _tables(source, result, lambda x: ACTIVATIONS[affine.activation](x, affine.slope))
        return TableStep(inputs, shape, tables_D)
    (s_x, z_x), (s_y, z_y) = source.doubles(), result.doubles()
    gain, bias = coded.tensor(number, "scale"), coded.tensor(number, "bias")
    neutral_DC = np.ones((len(s_x), shape[0]))
    with np.errstate(over="ignore", invalid="ignore"):
        multiplier_DC = (s_x / s_y)[:, None] * (neutral_DC if gain is None else gain)
        offset_DC = (0.0 if bias is None else bias) / s_y[:, None] + z_y[:, None] - multiplier_DC * z_x[:, None]
    lows, highs = coded.limits(number, affine)
    return AffineStep(inputs, shape, lows, highs, _factors(number, multiplier_DC), _factors(number, offset_DC))


def _tables(source: Codings, result: Codings, function: Callable[[Any], Any]) -> Bytes:
    """Return the code of a function's result for each of the 256 codes: (D, 256)."""
    (s_x, z_x), (s_y, z_y) = source.doubles(), result.doubles()
    numbers = s_x[:, None] * (np.arange(LARGEST_CODE + 1) - z_x[:, None])
    with np.errstate(over="ignore", invalid="ignore"):
        return nearest_codes(function(numbers), s_y[:, None], z_y[:, None])


def _sum(coded: Coded, number: int, add: Add, inputs: tuple[int, ...]) -> Step:
    (s_a, z_a), (s_b, z_b) = (coded.coding[value].doubles() for value in add.inputs)
    s_y, z_y = coded.coding[number + 1].doubles()
    first, second = s_a / s_y, s_b / s_y
    factors_D3 = np.stack([first, second, z_y - first * z_a - second * z_b], axis=1)
    lows, highs = coded.limits(number, add)
    return SumStep(inputs, coded.shapes[number + 1], lows, highs, _factors(number, factors_D3))


def _product(coded: Coded, number: int, mul: Mul, inputs: tuple[int, ...]) -> Step:
    first, second = (coded.coding[value] for value in mul.inputs)
    s_y, z_y = coded.coding[number + 1].doubles()
    factors_D2 = np.stack([first.doubles()[0] * second.doubles()[0] / s_y, z_y], axis=1)
    zeros_D2 = np.stack([first.zeros, second.zeros], axis=1)
    lows, highs = coded.limits(number, mul)
    return ProductStep(inputs, coded.shapes[number + 1], lows, highs, zeros_D2, _factors(number, factors_D2))


def _join(coded: Coded, number: int, operation: Cat | AppendZeros, inputs: tuple[int, ...]) -> Step:
    result = coded.coding[number + 1]
    columns: list[list[Bytes | None]] = []
    for value in operation.inputs:
        source = coded.coding[value]
        is_same_D = source.same_as(result)
        tables_D = [None] * len(is_same_D) if all(is_same_D) else list(_tables(source, result, lambda x: x))
        columns.append([None if is_same else table for is_same, table in zip(is_same_D, tables_D, strict=True)])
    return JoinStep(inputs, coded.shapes[number + 1], tuple(zip(*columns, strict=True)), result.zeros)


def _pool(coded: Coded, number: int, pool: Pool, inputs: tuple[int, ...]) -> Step:
    source, result = coded.coding[pool.inputs[0]], coded.coding[number + 1]
    s_y, z_y = result.doubles()
    factors_D = source.doubles()[0] / s_y
    return PoolStep(inputs, coded.shapes[number + 1], pool, source.zeros, factors_D, z_y.astype(np.float32))


def _mean(coded: Coded, number: int, mean: Mean, inputs: tuple[int, ...]) -> Step:
    source, result = coded.coding[mean.inputs[0]], coded.coding[number + 1]
    s_y, z_y = result.doubles()
    _, height, width = coded.shapes[mean.inputs[0]]
    factors_D = _factors(number, source.doubles()[0] / s_y / (height * width))
    return MeanStep(inputs, coded.shapes[number + 1], source.zeros, factors_D, z_y.astype(np.float32))


def _attention(coded: Coded, number: int, attention: Attention, inputs: tuple[int, ...]) -> Step:
    q, k, v = (coded.coding[value] for value in attention.inputs)
    result = coded.coding[number + 1]
    multipliers_D = attention.scale * LOG2_E * q.doubles()[0] * k.doubles()[0]
    bias = coded.tensor(number, "bias") if attention.pairs is not None else None
    return AttentionStep(
        inputs,
        coded.shapes[number + 1],
        attention,
        np.stack([q.zeros, v.zeros, result.zeros], axis=1),
        _factors(number, multipliers_D),
        _factors(number, v.doubles()[0] / result.doubles()[0]),
        None if bias is None else _factors(number, bias * LOG2_E),
        float(_factors(number, np.array([attention.apart * LOG2_E]))[0]),
    )


def integer_head(bundle: Bundle, index: int, features: Codings) -> IntegerHead:
    """Return the classifier of one domain, which reads features with these codings."""
    domain = bundle.domains[index]
    weight_KF = bundle.arrays[f"head/{domain}/weight"].astype(np.int8, copy=False)
    scale_K, bias_K = (bundle.arrays[f"head/{domain}/{role}"].astype(np.float64) for role in ("scale", "bias"))
    scales_D, zeros_D = features.doubles()
    multiplier_K = scale_K * scales_D[index]
    offset_K = bias_K - multiplier_K * zeros_D[index] * weight_KF.sum(axis=1, dtype=np.int64)
    last = len(bundle.manifest.graph)
    return IntegerHead(weight_KF, _factors(last, multiplier_K), _factors(last, offset_K))


INTEGER: dict[str, Callable[[Coded, int, Any, tuple[int, ...]], Step]] = {
    "conv": _convolution,
    "affine": _affine,
    "add": _sum,
    "mul": _product,
    "cat": _join,
    "append_zeros": _join,
    "pool": _pool,
    "mean": _mean,
    "attention": _attention,
}
