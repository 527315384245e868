"""The operations of a graph in numpy: pure functions of arrays, which keep the type of their numbers.

Legend: N = images, C = channels, H and W = rows and columns, G = groups.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence

import numpy as np

from prunus.arrays import Values
from prunus.graph import tokens
from prunus.graph.activations import ACTIVATIONS
from prunus.graph.operations import Add, Affine, AppendZeros, Conv, LayerNorm, Mul, Operation, Pads, Pool

Tensors = Mapping[str, Values]  # by role: those of the operation's `tensors`, and a convolution's weight
Pair = tuple[int, int]
MAX_COLUMN_NUMBERS = 2**18  # in the windows that are copied at once: one megabyte


def compute(operation: Operation, inputs: Sequence[Values], tensors: Tensors, sides: Pair) -> Values:
    """Compute one operation: inputs and result are (N, C, H, W), `sides` are the result's H and W."""
    return NUMPY[operation.op](operation, inputs, tensors, sides)


def convolve(x: Values, weight: Values, conv: Conv, groups: int, sides: Pair) -> Values:
    """Convolve image by image and a few rows at a time, to limit the windows in memory."""
    x = _pad(x, conv.pads)
    if weight.shape[1] == 1 and len(weight) == groups:  # depthwise: no sum over channels
        return _convolve_depthwise(x, weight, conv, sides)
    matrices = weight.reshape(groups, len(weight) // groups, -1)
    rows = max(1, MAX_COLUMN_NUMBERS // (groups * matrices.shape[2] * sides[1]))
    result = np.empty((len(x), groups, matrices.shape[1], sides[0] * sides[1]), dtype=x.dtype)
    for image, output in zip(x, result, strict=True):
        for first in range(0, sides[0], rows):
            count = min(rows, sides[0] - first)
            below = image[:, first * conv.stride[0] :]
            taps = list(_taps(below, conv.kernel, conv.dilation, conv.stride, (count, sides[1])))
            windows = np.stack(taps, axis=1) if len(taps) > 1 else taps[0]
            columns = windows.reshape(groups, matrices.shape[2], count * sides[1])
            np.matmul(matrices, columns, out=output[:, :, first * sides[1] : (first + count) * sides[1]])
    return result.reshape(len(x), len(weight), *sides)


def _convolve_used(x: Values, weight: Values, conv: Conv, sides: Pair) -> Values:
    """Convolve with the kernels in use; others ignore overflows, where zero times infinity would be NaN.

    A channel with overflows costs no more than others: the products that are not finite are counted by convolutions.
    """
    is_finite = np.isfinite(x)
    if is_finite.all():
        return convolve(x, weight, conv, conv.groups, sides)
    used = np.broadcast_to(weight.any(axis=(2, 3), keepdims=True), weight.shape)
    if weight.shape[1] == 1 and len(weight) == conv.groups:  # depthwise: one kernel for each input
        return convolve(np.where(used[:, 0, :1, :1], x, 0), weight, conv, conv.groups, sides)
    result = convolve(np.where(is_finite, x, 0), weight, conv, conv.groups, sides)
    signs = np.where(np.isinf(x), np.sign(x), 0).astype(x.dtype)
    direction = convolve(signs, np.sign(weight), conv, conv.groups, sides)  # positive minus negative infinities
    infinities = convolve(np.abs(signs), np.abs(np.sign(weight)), conv, conv.groups, sides)
    overflows = convolve((~is_finite).astype(x.dtype), used.astype(x.dtype), conv, conv.groups, sides)
    has_overflow = overflows > 0
    result[has_overflow] = np.inf * direction[has_overflow]
    # NaN times anything, infinity times zero, and infinities of both signs
    result[(overflows > infinities) | (np.abs(direction) < infinities)] = np.nan
    return result


def _convolve_depthwise(x: Values, weight: Values, conv: Conv, sides: Pair) -> Values:
    result = np.zeros((*x.shape[:2], *sides), dtype=x.dtype)
    taps = _taps(x, conv.kernel, conv.dilation, conv.stride, sides)
    for tap, factor in zip(taps, weight.reshape(len(weight), -1).T, strict=True):
        result += tap * _by_channel(factor)
    return result


def _taps(x: Values, kernel: Pair, dilation: Pair, stride: Pair, sides: Pair) -> Iterator[Values]:
    """Yield, for every pixel of a kernel, the pixels that it meets in all windows."""
    for row in range(0, kernel[0] * dilation[0], dilation[0]):
        for column in range(0, kernel[1] * dilation[1], dilation[1]):
            yield x[
                ...,
                row : row + (sides[0] - 1) * stride[0] + 1 : stride[0],
                column : column + (sides[1] - 1) * stride[1] + 1 : stride[1],
            ]


def _pad(x: Values, pads: Pads, value: float = 0.0) -> Values:
    top, left, bottom, right = pads
    if not any(pads):
        return x
    return np.pad(x, [(0, 0)] * (x.ndim - 2) + [(top, bottom), (left, right)], constant_values=value)


def _by_channel(numbers: Values) -> Values:
    return numbers[:, None, None]


def _scaled(x: Values, tensors: Tensors) -> Values:
    if "scale" in tensors:
        x = x * _by_channel(tensors["scale"])
    return x + _by_channel(tensors["bias"]) if "bias" in tensors else x


def _activated(operation: Conv | Affine | Add | Mul, x: Values) -> Values:
    return ACTIVATIONS[operation.activation](x, operation.slope)


def _conv(conv: Conv, inputs: Sequence[Values], tensors: Tensors, sides: Pair) -> Values:
    x = inputs[0]
    result = _convolve_used(x, tensors["weight"], conv, sides)
    if "ones" in tensors:
        plane = np.ones((1, 1, *x.shape[2:]), dtype=x.dtype)
        result = result + convolve(plane, tensors["ones"][:, None], conv, 1, sides)
    result = _scaled(result, tensors)
    return _activated(conv, result + inputs[1] if len(inputs) == 2 else result)


def _layer_norm(norm: LayerNorm, inputs: Sequence[Values], tensors: Tensors, sides: Pair) -> Values:
    centred = inputs[0] - inputs[0].mean(axis=1, keepdims=True)
    variance = np.square(centred).mean(axis=1, keepdims=True)
    return _scaled(centred / np.sqrt(variance + norm.eps), tensors)


def _append_zeros(operation: AppendZeros, inputs: Sequence[Values], tensors: Tensors, sides: Pair) -> Values:
    return np.pad(inputs[0], [(0, 0), (0, operation.count), (0, 0), (0, 0)])


def _pool(pool: Pool, inputs: Sequence[Values], tensors: Tensors, sides: Pair) -> Values:
    is_max = pool.kind == "max"
    height, width = inputs[0].shape[2:]
    x = _pad(inputs[0], pool.pads_to_last_window((height, width), sides), -np.inf if is_max else 0.0)
    first, *rest = _taps(x, pool.kernel, (1, 1), pool.stride, sides)
    result = first.copy()
    for tap in rest:
        (np.maximum if is_max else np.add)(result, tap, out=result)
    if is_max:
        return result
    mean: Values = result / pool.window_pixels((height, width), sides).astype(x.dtype)
    return mean


NUMPY: dict[str, Callable[..., Values]] = {
    "conv": _conv,
    "affine": lambda operation, inputs, tensors, sides: _activated(operation, _scaled(inputs[0], tensors)),
    "layer_norm": _layer_norm,
    "add": lambda operation, inputs, tensors, sides: _activated(operation, inputs[0] + inputs[1]),
    "mul": lambda operation, inputs, tensors, sides: _activated(operation, inputs[0] * inputs[1]),
    "cat": lambda operation, inputs, tensors, sides: np.concatenate(inputs, axis=1),
    "append_zeros": _append_zeros,
    "pool": _pool,
    "mean": lambda operation, inputs, tensors, sides: inputs[0].mean(axis=(2, 3), keepdims=True),
    "affine_map": tokens.affine_map,
    "join_pixels": tokens.join_pixels,
    "rearrange": tokens.rearrange,
    "attention": tokens.attention,
}
