"""Hand the integer steps of a lowered program to the native engine, with the factors of every domain."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from prunus.arrays import Array
from prunus.bundle.bundle import Bundle
from prunus.integers.steps import (
    AffineStep,
    AttentionStep,
    ConvolutionStep,
    DequantizeStep,
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
from prunus.runtime import _native
from prunus.runtime.native_tokens import windows_and_regions


def set_heads(program: _native.Program, heads: Sequence[IntegerHead]) -> None:
    """Pass the classifiers of all domains."""
    for index, head in enumerate(heads):
        program.set_integer_head(index, head.weight, head.multipliers, head.offsets)


def _rows(array_D: Array) -> list[Any]:
    """Return the rows of an array as arrays that are contiguous."""
    return list(np.ascontiguousarray(array_D))


def _tuples(array_D: Array) -> list[Any]:
    """Return the rows of an array as tuples of Python numbers."""
    return [tuple(row) for row in array_D.tolist()]


def _add_convolution(program: _native.Program, bundle: Bundle, step: ConvolutionStep) -> None:
    conv = step.conv
    kept, kernels = bundle.stored(conv.layer)
    window = _native.Window(conv.kernel, conv.stride, conv.pads, conv.dilation)
    codes = kernels.astype(np.int8, copy=False)
    number = program.add_integer_convolution(step.inputs, conv.groups, window, kept, codes)
    for index, domain in enumerate(bundle.domains):
        program.set_integer_convolution(
            number,
            index,
            bundle.packed_mask(domain, conv.layer),
            int(step.zeros[index]),
            step.multipliers[index],
            step.offsets[index],
            float(step.residuals[index]),
            int(step.lows[index]),
            int(step.highs[index]),
        )


def _add_affine(program: _native.Program, bundle: Bundle, step: AffineStep) -> None:
    multipliers, offsets = _rows(step.multipliers), _rows(step.offsets)
    program.add_integer_affine(step.inputs[0], multipliers, offsets, step.lows.tolist(), step.highs.tolist())


def _add_sum(program: _native.Program, bundle: Bundle, step: SumStep) -> None:
    program.add_integer_sum(step.inputs, _tuples(step.factors), step.lows.tolist(), step.highs.tolist())


def _add_product(program: _native.Program, bundle: Bundle, step: ProductStep) -> None:
    zeros, factors = _tuples(step.zeros), _tuples(step.factors)
    program.add_integer_product(step.inputs, zeros, factors, step.lows.tolist(), step.highs.tolist())


def _add_join(program: _native.Program, bundle: Bundle, step: JoinStep) -> None:
    program.add_integer_join(step.inputs, [list(row) for row in step.tables], step.zeros.tolist())


def _add_pool(program: _native.Program, bundle: Bundle, step: PoolStep) -> None:
    pool = step.pool
    window = _native.Window(pool.kernel, pool.stride, pool.pads, (1, 1))
    factors = list(zip(step.factors.tolist(), step.offsets.tolist(), strict=True))
    program.add_integer_pool(step.inputs[0], window, pool.kind == "max", pool.count_pads, step.zeros.tolist(), factors)


def _add_mean(program: _native.Program, bundle: Bundle, step: MeanStep) -> None:
    factors = list(zip(step.factors.tolist(), step.offsets.tolist(), strict=True))
    program.add_integer_mean(step.inputs[0], step.zeros.tolist(), factors)


def _add_attention(program: _native.Program, bundle: Bundle, step: AttentionStep) -> None:
    attention = step.attention
    program.add_integer_attention(
        step.inputs,
        attention.heads,
        attention.dims,
        attention.first,
        attention.step,
        step.apart,
        *windows_and_regions(attention, step.shape[1:]),
        _tuples(step.zeros),
        list(zip(step.multipliers.tolist(), step.factors.tolist(), strict=True)),
        [None] * len(step.multipliers) if step.biases is None else _rows(step.biases),
    )


INTEGER_STEPS: dict[type[Step], Callable[[_native.Program, Bundle, Any], None]] = {
    QuantizeStep: lambda program, bundle, step: program.add_quantize(
        step.inputs[0], step.inverses.tolist(), step.zeros.tolist()
    ),
    DequantizeStep: lambda program, bundle, step: program.add_dequantize(
        step.inputs[0], step.scales.tolist(), step.zeros.tolist()
    ),
    ConvolutionStep: _add_convolution,
    AffineStep: _add_affine,
    TableStep: lambda program, bundle, step: program.add_table(step.inputs[0], _rows(step.tables)),
    SumStep: _add_sum,
    ProductStep: _add_product,
    JoinStep: _add_join,
    PoolStep: _add_pool,
    MeanStep: _add_mean,
    AttentionStep: _add_attention,
}
