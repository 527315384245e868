"""The shape of every value of a graph; whatever does not fit is refused."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from prunus.errors import BundleError
from prunus.graph.limits import MAX_ALL_NUMBERS, MAX_NUMBERS, MAX_WINDOW_NUMBERS
from prunus.graph.operations import AppendZeros, Cat, Conv, Graph, Mean, Operation, Pool

Shape = tuple[int, int, int]  # channels, height, width


def value_shapes(graph: Graph, image_size: int) -> list[Shape]:
    """Give the shape of every value, the image first."""
    shapes: list[Shape] = [(3, image_size, image_size)]
    for number, operation in enumerate(graph):
        if any(value > number for value in operation.inputs):
            raise BundleError(f"operation {number} ({operation.op}) reads a value that is made after it")
        shape = _shape(number, operation, [shapes[value] for value in operation.inputs])
        if min(shape) < 1 or prod(shape) > MAX_NUMBERS or _work(operation, shapes, shape) > MAX_WINDOW_NUMBERS:
            raise BundleError(f"operation {number} ({operation.op}) makes the impossible shape {shape}")
        shapes.append(shape)
    if sum(map(prod, shapes)) > MAX_ALL_NUMBERS:
        raise BundleError(f"the values of the network are larger than {MAX_ALL_NUMBERS} numbers together")
    return shapes


def _work(operation: Operation, shapes: Sequence[Shape], made: Shape) -> int:
    """Count the numbers in all windows that an operation looks at."""
    if not isinstance(operation, (Conv, Pool)):
        return 0
    channels = shapes[operation.inputs[0]][0]
    return channels * prod(operation.kernel) * made[1] * made[2]


def window_count(side: int, kernel: int, stride: int, pads: int, ceil: bool = False) -> int:
    """Count the places of a window along one side."""
    room = side + pads - kernel
    return (-(-room // stride) if ceil else room // stride) + 1


def _shape(number: int, operation: Operation, inputs: Sequence[Shape]) -> Shape:
    channels, height, width = inputs[0]
    if isinstance(operation, (Conv, Pool)):
        _check_windows(number, operation, inputs[0])
    if isinstance(operation, Conv):
        return _convolved(number, operation, inputs)
    if isinstance(operation, Pool):
        return channels, *_pooled(operation, (height, width))
    if isinstance(operation, Cat):
        if any(shape[1:] != (height, width) for shape in inputs):
            raise BundleError(f"operation {number} (cat) joins images of different sizes: {list(inputs[:9])}")
        return sum(shape[0] for shape in inputs), height, width
    if isinstance(operation, AppendZeros):
        return channels + operation.count, height, width
    if isinstance(operation, Mean):
        return channels, 1, 1
    if len(inputs) == 2 and inputs[1] != inputs[0] and not (operation.op == "mul" and inputs[1] == (channels, 1, 1)):
        raise BundleError(f"operation {number} ({operation.op}) joins values of different shapes: {list(inputs)}")
    return inputs[0]


def _check_windows(number: int, operation: Conv | Pool, source: Shape) -> None:
    """Refuse pads that would fill the memory, and windows of a pool that see nothing of the image."""
    channels, height, width = source
    top, left, bottom, right = operation.pads
    if channels * (height + top + bottom) * (width + left + right) > MAX_NUMBERS:
        raise BundleError(f"operation {number} ({operation.op}) has impossible pads {operation.pads}")
    if isinstance(operation, Pool):
        rows, columns = operation.kernel
        if max(top, bottom) >= rows or max(left, right) >= columns or channels * rows * columns > MAX_NUMBERS:
            raise BundleError(f"operation {number} (pool) has the impossible windows {operation.kernel}")


def _convolved(number: int, conv: Conv, inputs: Sequence[Shape]) -> Shape:
    channels, height, width = inputs[0]
    out, in_group = conv.channels
    if in_group * conv.groups != channels or out % conv.groups:
        raise BundleError(
            f"layer {conv.layer!r} has {out} outputs and {conv.groups} groups of {in_group} inputs, and gets {channels}"
        )
    reach = [(k - 1) * d + 1 for k, d in zip(conv.kernel, conv.dilation, strict=True)]
    top, left, bottom, right = conv.pads
    rows = window_count(height, reach[0], conv.stride[0], top + bottom)
    columns = window_count(width, reach[1], conv.stride[1], left + right)
    if len(inputs) == 2 and inputs[1] != (out, rows, columns):
        raise BundleError(f"layer {conv.layer!r} makes {(out, rows, columns)}, its residual is {inputs[1]}")
    return out, rows, columns


def _pooled(pool: Pool, sides: tuple[int, int]) -> tuple[int, int]:
    found = []
    for axis, side in enumerate(sides):
        before, after = pool.pads[axis], pool.pads[axis + 2]
        count = window_count(side, pool.kernel[axis], pool.stride[axis], before + after, pool.ceil)
        if pool.ceil and (count - 1) * pool.stride[axis] >= side + before:
            count -= 1  # a window must begin in the image or in the padding before it
        found.append(count)
    return found[0], found[1]
