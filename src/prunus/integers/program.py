"""Lower a bundle to a list of steps, with conversions between floats and codes where they are needed.

This is the one place where the factors of integer steps are computed: in double precision, then rounded to float32.
A bundle of floats becomes its graph.

Legend: D = domains, C = channels, O = output channels, K = classes, F = features.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from prunus.arrays import Bools, Bytes, Doubles, Floats, Integers
from prunus.bundle.bits import unpack_bits
from prunus.bundle.bundle import Bundle
from prunus.bundle.eight_bits.rules import LARGEST_CODE, PLAIN, sum_fits
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
    Operation,
    Pool,
    Shape,
)
from prunus.integers.coding import Codings, inverse_scales, nearest_codes, value_codings
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

LOG2_E = math.log2(math.e)
MAX_FACTOR = 2.0**64  # larger ones could make products that are not finite


@dataclass(frozen=True)
class Program:
    """What an engine computes.

    Args:
        codings: of the lowered values that are coded.
        heads: of each domain; None if the classifiers compute with floats, and read the last value as floats.
    """

    steps: tuple[Step, ...]
    image: Shape
    codings: dict[int, Codings]
    heads: tuple[IntegerHead, ...] | None

    @property
    def shapes(self) -> list[Shape]:
        """Return the shape of every value, the image first."""
        return [self.image, *(step.shape for step in self.steps)]


def lower(bundle: Bundle) -> Program:
    """Return the steps of a bundle."""
    lowering = _Lowering(bundle)
    for number, operation in enumerate(bundle.manifest.graph):
        lowering.add(number, operation)
    heads = lowering.heads()
    return Program(tuple(lowering.steps), bundle.manifest.shapes[0], lowering.codings, heads)


class _Lowering:
    """A bundle that is being lowered, and the steps so far."""

    def __init__(self, bundle: Bundle) -> None:
        self.bundle = bundle
        self.shapes = bundle.manifest.shapes
        self.integers = set(bundle.manifest.integers)
        self.coding = value_codings(bundle)  # of the graph's values
        self.steps: list[Step] = []
        self.codings: dict[int, Codings] = {}
        self._floats = {0: 0}  # value of the graph -> lowered value that holds it in floats
        self._codes: dict[int, int] = {}

    def add(self, number: int, operation: Operation) -> None:
        """Add the step of an operation, and what converts its inputs."""
        is_integer = number in self.integers
        convert = self._as_codes if is_integer else self._as_floats
        inputs = tuple(convert(value) for value in operation.inputs)
        if is_integer:
            step = INTEGER[operation.op](self, number, operation, inputs)
            self._codes[number + 1] = self._append(step, self.coding[number + 1])
        else:
            moved = operation if inputs == operation.inputs else operation.model_copy(update={"inputs": inputs})
            self._floats[number + 1] = self._append(FloatStep(inputs, self.shapes[number + 1], number, moved))

    def heads(self) -> tuple[IntegerHead, ...] | None:
        """Return integer classifiers if the features are coded; otherwise make sure that they are floats."""
        last = len(self.shapes) - 1
        if last in self._codes and sum_fits(self.bundle.manifest.num_features):
            return tuple(_head(self.bundle, index, self.coding[last]) for index in range(len(self.bundle.domains)))
        self._as_floats(last)
        return None

    def _append(self, step: Step, codings: Codings | None = None) -> int:
        self.steps.append(step)
        if codings is not None:
            self.codings[len(self.steps)] = codings
        return len(self.steps)

    def _as_floats(self, value: int) -> int:
        if value not in self._floats:
            source, codings = self._codes[value], self.coding[value]
            step = DequantizeStep((source,), self.shapes[value], codings.scales, codings.zeros)
            self._floats[value] = self._append(step)
        return self._floats[value]

    def _as_codes(self, value: int) -> int:
        if value not in self._codes:
            source, codings = self._floats[value], self.coding[value]
            step = QuantizeStep((source,), self.shapes[value], inverse_scales(codings.scales), codings.zeros)
            self._codes[value] = self._append(step, codings)
        return self._codes[value]

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


def _convolution(lowering: _Lowering, number: int, conv: Conv, inputs: tuple[int, ...]) -> Step:
    source, result = lowering.coding[conv.inputs[0]], lowering.coding[number + 1]
    (s_x, z_x), (s_y, z_y) = source.doubles(), result.doubles()
    weights = lowering.bundle.arrays[f"scale/{conv.layer}"].astype(np.float64)
    gain, bias = lowering.tensor(number, "scale"), lowering.tensor(number, "bias")
    with np.errstate(over="ignore", invalid="ignore"):
        real_DO = s_x[:, None] * weights * (1.0 if gain is None else gain)  # of one unit of the sum
        offset_DO = (0.0 if bias is None else bias) - real_DO * z_x[:, None] * _code_sums(lowering.bundle, conv.layer)
        offset_DO = offset_DO / s_y[:, None] + z_y[:, None]
        residual_D = np.zeros_like(s_y)
        if len(inputs) > 1:
            s_r, z_r = lowering.coding[conv.inputs[1]].doubles()
            residual_D = s_r / s_y
            offset_DO = offset_DO - (residual_D * z_r)[:, None]
        multiplier_DO = real_DO / s_y[:, None]
    lows, highs = lowering.limits(number, conv)
    return ConvolutionStep(
        inputs,
        lowering.shapes[number + 1],
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


def _affine(lowering: _Lowering, number: int, affine: Affine, inputs: tuple[int, ...]) -> Step:
    source, result = lowering.coding[affine.inputs[0]], lowering.coding[number + 1]
    shape = lowering.shapes[number + 1]
    if affine.activation not in PLAIN:
        tables_D = _tables(source, result, lambda x: ACTIVATIONS[affine.activation](x, affine.slope))
        return TableStep(inputs, shape, tables_D)
    (s_x, z_x), (s_y, z_y) = source.doubles(), result.doubles()
    gain, bias = lowering.tensor(number, "scale"), lowering.tensor(number, "bias")
    neutral_DC = np.ones((len(s_x), shape[0]))
    with np.errstate(over="ignore", invalid="ignore"):
        multiplier_DC = (s_x / s_y)[:, None] * (neutral_DC if gain is None else gain)
        offset_DC = (0.0 if bias is None else bias) / s_y[:, None] + z_y[:, None] - multiplier_DC * z_x[:, None]
    lows, highs = lowering.limits(number, affine)
    return AffineStep(inputs, shape, lows, highs, _factors(number, multiplier_DC), _factors(number, offset_DC))


def _tables(source: Codings, result: Codings, function: Callable[[Any], Any]) -> Bytes:
    """Return the code of a function's result for each of the 256 codes: (D, 256)."""
    (s_x, z_x), (s_y, z_y) = source.doubles(), result.doubles()
    numbers = s_x[:, None] * (np.arange(LARGEST_CODE + 1) - z_x[:, None])
    with np.errstate(over="ignore", invalid="ignore"):
        return nearest_codes(function(numbers), s_y[:, None], z_y[:, None])


def _sum(lowering: _Lowering, number: int, add: Add, inputs: tuple[int, ...]) -> Step:
    (s_a, z_a), (s_b, z_b) = (lowering.coding[value].doubles() for value in add.inputs)
    s_y, z_y = lowering.coding[number + 1].doubles()
    first, second = s_a / s_y, s_b / s_y
    factors_D3 = np.stack([first, second, z_y - first * z_a - second * z_b], axis=1)
    lows, highs = lowering.limits(number, add)
    return SumStep(inputs, lowering.shapes[number + 1], lows, highs, _factors(number, factors_D3))


def _product(lowering: _Lowering, number: int, mul: Mul, inputs: tuple[int, ...]) -> Step:
    first, second = (lowering.coding[value] for value in mul.inputs)
    s_y, z_y = lowering.coding[number + 1].doubles()
    factors_D2 = np.stack([first.doubles()[0] * second.doubles()[0] / s_y, z_y], axis=1)
    zeros_D2 = np.stack([first.zeros, second.zeros], axis=1)
    lows, highs = lowering.limits(number, mul)
    return ProductStep(inputs, lowering.shapes[number + 1], lows, highs, zeros_D2, _factors(number, factors_D2))


def _join(lowering: _Lowering, number: int, operation: Cat | AppendZeros, inputs: tuple[int, ...]) -> Step:
    result = lowering.coding[number + 1]
    columns: list[list[Bytes | None]] = []
    for value in operation.inputs:
        source = lowering.coding[value]
        is_same_D = source.same_as(result)
        tables_D = [None] * len(is_same_D) if all(is_same_D) else list(_tables(source, result, lambda x: x))
        columns.append([None if is_same else table for is_same, table in zip(is_same_D, tables_D, strict=True)])
    return JoinStep(inputs, lowering.shapes[number + 1], tuple(zip(*columns, strict=True)), result.zeros)


def _pool(lowering: _Lowering, number: int, pool: Pool, inputs: tuple[int, ...]) -> Step:
    source, result = lowering.coding[pool.inputs[0]], lowering.coding[number + 1]
    s_y, z_y = result.doubles()
    factors_D = source.doubles()[0] / s_y
    return PoolStep(inputs, lowering.shapes[number + 1], pool, source.zeros, factors_D, z_y.astype(np.float32))


def _mean(lowering: _Lowering, number: int, mean: Mean, inputs: tuple[int, ...]) -> Step:
    source, result = lowering.coding[mean.inputs[0]], lowering.coding[number + 1]
    s_y, z_y = result.doubles()
    _, height, width = lowering.shapes[mean.inputs[0]]
    factors_D = _factors(number, source.doubles()[0] / s_y / (height * width))
    return MeanStep(inputs, lowering.shapes[number + 1], source.zeros, factors_D, z_y.astype(np.float32))


def _attention(lowering: _Lowering, number: int, attention: Attention, inputs: tuple[int, ...]) -> Step:
    q, k, v = (lowering.coding[value] for value in attention.inputs)
    result = lowering.coding[number + 1]
    multipliers_D = attention.scale * LOG2_E * q.doubles()[0] * k.doubles()[0]
    bias = lowering.tensor(number, "bias") if attention.pairs is not None else None
    return AttentionStep(
        inputs,
        lowering.shapes[number + 1],
        attention,
        np.stack([q.zeros, v.zeros, result.zeros], axis=1),
        _factors(number, multipliers_D),
        _factors(number, v.doubles()[0] / result.doubles()[0]),
        None if bias is None else _factors(number, bias * LOG2_E),
        float(_factors(number, np.array([attention.apart * LOG2_E]))[0]),
    )


def _head(bundle: Bundle, index: int, features: Codings) -> IntegerHead:
    domain = bundle.domains[index]
    weight_KF = bundle.arrays[f"head/{domain}/weight"].astype(np.int8, copy=False)
    scale_K, bias_K = (bundle.arrays[f"head/{domain}/{role}"].astype(np.float64) for role in ("scale", "bias"))
    scales_D, zeros_D = features.doubles()
    multiplier_K = scale_K * scales_D[index]
    offset_K = bias_K - multiplier_K * zeros_D[index] * weight_KF.sum(axis=1, dtype=np.int64)
    last = len(bundle.manifest.graph)
    return IntegerHead(weight_KF, _factors(last, multiplier_K), _factors(last, offset_K))


INTEGER: dict[str, Callable[[_Lowering, int, Any, tuple[int, ...]], Step]] = {
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
