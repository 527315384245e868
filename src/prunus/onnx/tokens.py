"""The operations on tokens as ONNX nodes."""

from collections.abc import Callable, Sequence
from math import prod
from typing import Any

import numpy as np

from prunus.graph.operations import AffineMap, Attention, JoinPixels, Rearrange
from prunus.onnx.writer import Writer


def _affine_map(writer: Writer, operation: AffineMap, inputs: Sequence[str]) -> str:
    result = inputs[0]
    for op, role in (("Mul", "scale"), ("Add", "bias")):
        if name := writer.tensors.get(writer.number, role):
            result = writer.onnx.node(op, result, name)
    return result


def _join_pixels(writer: Writer, operation: JoinPixels, inputs: Sequence[str]) -> str:
    """Join rows of pixels; constant tokens come first, once for every image.

    They are not added to padded pixels, because OpenVINO cannot load the 8-bit form of such a sum.
    """
    onnx, (channels, _, pixels) = writer.onnx, writer.target
    columns = [onnx.node("Reshape", x, onnx.integers(0, channels, -1)) for x in inputs]
    if operation.count:
        columns.insert(0, _tokens(writer, operation, columns[0]))
    result = onnx.node("Concat", *columns, axis=2) if len(columns) > 1 else columns[0]
    return onnx.node("Reshape", result, onnx.integers(0, channels, 1, pixels))


def _tokens(writer: Writer, operation: JoinPixels, column: str) -> str:
    """Repeat the tokens for as many images as a column has: (batch, channels, tokens)."""
    onnx, shape = writer.onnx, (writer.target[0], operation.count)
    tokens = writer.tensors.get(writer.number, "tokens")
    tokens = tokens or onnx.tensor(f"{writer.number}.zeros", np.zeros(shape, onnx.real))
    images = onnx.node("Shape", column, start=0, end=1)
    return onnx.node("Expand", tokens, onnx.node("Concat", images, onnx.integers(*shape), axis=0))


def _rearrange(writer: Writer, operation: Rearrange, inputs: Sequence[str]) -> str:
    """Transpose if the result has every number once, otherwise look up each number."""
    onnx = writer.onnx
    order = sorted(range(len(operation.sizes)), key=lambda axis: -operation.strides[axis])
    sizes = [operation.sizes[axis] for axis in order]
    dense = [prod(sizes[position + 1 :]) for position in range(len(sizes))]
    is_whole = prod(sizes) == prod(writer.source) and operation.offset == 0
    if is_whole and [operation.strides[axis] for axis in order] == dense:
        split = onnx.node("Reshape", inputs[0], onnx.integers(0, *sizes))
        perm = (0, *(1 + order.index(axis) for axis in range(len(order))))
        moved = split if perm == tuple(range(len(perm))) else onnx.node("Transpose", split, perm=perm)
    else:
        numbers = np.full(operation.sizes, operation.offset, np.int64)
        for axis, stride in enumerate(operation.strides):
            steps = stride * np.arange(operation.sizes[axis])
            numbers += steps.reshape(-1, *[1] * (len(operation.sizes) - 1 - axis))
        index = onnx.tensor(f"{writer.number}.positions", numbers.reshape(-1))
        moved = onnx.node("Gather", onnx.node("Flatten", inputs[0], axis=1), index, axis=1)
    return onnx.node("Reshape", moved, onnx.integers(0, *operation.target))


def _attention(writer: Writer, operation: Attention, inputs: Sequence[str]) -> str:
    """Write products and a softmax over (batch, heads, windows, pixels, channels)."""
    onnx, heads, (dim, width) = writer.onnx, operation.heads, operation.dims
    sides = writer.target[1:]
    windows = None if operation.window is None else operation.windows(sides)
    parts = []
    for position, x in enumerate(inputs):
        size = width if position == 2 else dim
        first, step = operation.first[position], operation.step[position]
        channels = (first + step * np.arange(heads)[:, None] + np.arange(size)).reshape(-1)
        index = onnx.tensor(f"{writer.number}.channels.{position}", channels)
        split = onnx.node("Reshape", onnx.node("Gather", x, index, axis=1), onnx.integers(0, heads, size, 1, -1))
        if windows is not None:
            pixels = onnx.tensor(f"{writer.number}.pixels", windows)
            flat = onnx.node("Reshape", split, onnx.integers(0, heads, size, -1))
            split = onnx.node("Gather", flat, pixels, axis=3)
        # batch, heads, channels, windows, pixels
        parts.append(onnx.node("Transpose", split, perm=(0, 1, 3, 2, 4) if position == 1 else (0, 1, 3, 4, 2)))
    q = onnx.node("Mul", parts[0], onnx.tensor(f"{writer.number}.scale", np.array(operation.scale, onnx.real)))
    scores = onnx.node("MatMul", q, parts[1])
    if operation.pairs is not None and (
        bias := writer.tensors.get(writer.number, "bias", (heads, 1, *operation.pairs))
    ):
        scores = onnx.node("Add", scores, bias)
    if windows is not None and operation.apart:
        regions = operation.regions(sides)
        apart = np.where(regions[:, :, None] != regions[:, None, :], operation.apart, 0.0).astype(onnx.real)
        scores = onnx.node("Add", scores, onnx.tensor(f"{writer.number}.apart", apart))
    means = onnx.node("MatMul", onnx.node("Softmax", scores, axis=-1), parts[2])
    moved = onnx.node("Transpose", means, perm=(0, 1, 4, 2, 3))
    result = onnx.node("Reshape", moved, onnx.integers(0, heads * width, *(sides if windows is None else (-1,))))
    if windows is None:
        return result
    back = onnx.tensor(f"{writer.number}.back", np.argsort(windows.reshape(-1)))
    return onnx.node("Reshape", onnx.node("Gather", result, back, axis=2), onnx.integers(0, *writer.target))


TOKEN_NODES: dict[str, Callable[[Writer, Any, Sequence[str]], str]] = {
    "affine_map": _affine_map,
    "join_pixels": _join_pixels,
    "rearrange": _rearrange,
    "attention": _attention,
}
