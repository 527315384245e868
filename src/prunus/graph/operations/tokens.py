"""Operations on tokens: the pixels of a value, usually in one row, each with all its channels."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Annotated, Literal

import numpy as np
from pydantic import Field
from typing_extensions import override

from prunus.arrays import Integers
from prunus.errors import BundleError
from prunus.graph.limits import MAX_NUMBERS, MAX_SIDE, MAX_WINDOW_NUMBERS
from prunus.graph.operations.base import Amount, ChannelRule, Operation, Pair, Shape, Side, Value

Position = Annotated[int, Field(ge=0, le=MAX_NUMBERS)]
Length = Annotated[int, Field(ge=1, le=MAX_NUMBERS)]
Triple = tuple[Amount, Amount, Amount]


class AffineMap(Operation):
    """scale * x + bias, with numbers for every channel of every pixel, such as position embeddings."""

    op: Literal["affine_map"]
    inputs: tuple[Value]
    sides: Pair

    @override
    def tensors(self, channels: int) -> dict[str, tuple[int, ...]]:
        return {"scale": (channels, *self.sides), "bias": (channels, *self.sides)}

    @override
    def shape(self, inputs: Sequence[Shape]) -> Shape:
        if inputs[0][1:] != self.sides:
            raise BundleError(f"has numbers for {self.sides} pixels, but its input is {inputs[0]}")
        return inputs[0]


class JoinPixels(Operation):
    """The pixels of all inputs as one row, after `count` constant pixels, such as class tokens."""

    op: Literal["join_pixels"]
    inputs: Annotated[tuple[Value, ...], Field(min_length=1)]
    count: Amount = 0

    @override
    def tensors(self, channels: int) -> dict[str, tuple[int, ...]]:
        return {"tokens": (channels, self.count)}

    @override
    def shape(self, inputs: Sequence[Shape]) -> Shape:
        if any(shape[0] != inputs[0][0] for shape in inputs):
            raise BundleError(f"joins pixels of different channels: {list(inputs[:9])}")
        pixels = self.count + sum(height * width for _, height, width in inputs)
        if pixels > MAX_SIDE:
            raise BundleError(f"joins {pixels} pixels, more than {MAX_SIDE}")
        return inputs[0][0], 1, pixels


class Rearrange(Operation):
    """The numbers of the input in another order and shape; some may be left out, and some repeated.

    The result's numbers, channel by channel and row by row, are counted as an array of `sizes`. The number at
    (i, j, ...) is that of the input, counted in the same way, at offset + i * strides[0] + j * strides[1] + ...
    """

    op: Literal["rearrange"]
    inputs: tuple[Value]
    target: tuple[Side, Side, Side]
    sizes: Annotated[tuple[Length, ...], Field(min_length=1, max_length=12)]
    strides: Annotated[tuple[Position, ...], Field(min_length=1, max_length=12)]
    offset: Position = 0

    @override
    def shape(self, inputs: Sequence[Shape]) -> Shape:
        if len(self.sizes) != len(self.strides) or prod(self.sizes) != prod(self.target):
            raise BundleError(f"arranges numbers as {self.sizes}, by {self.strides}, for {self.target}")
        last = self.offset + sum((size - 1) * stride for size, stride in zip(self.sizes, self.strides, strict=True))
        if last >= prod(inputs[0]):
            raise BundleError(f"reads number {last} of its input {inputs[0]}")
        return self.target

    @override
    def rule(self, inputs: Sequence[Shape]) -> ChannelRule:
        channels, height, width = inputs[0]
        beside = sum((size - 1) * stride for size, stride in zip(self.sizes[1:], self.strides[1:], strict=True))
        stays = self.offset + beside < height * width and self.target[0] == self.sizes[0] == channels
        return "moved" if stays and self.strides[0] == height * width else "mixed"

    @override
    def on_uniform_images(self) -> Rearrange:
        channels = self.target[0]
        update = {"target": (channels, 1, 1), "sizes": (channels,), "strides": (1,), "offset": 0}
        return self.model_copy(update=update)


class Attention(Operation):
    """Weighted means of pixels: softmax(scale * q k + bias) v, for every head by itself.

    The inputs are the values that hold q, k and v, which may be one and the same. Head h of an input has the channels
    from `first` + h * `step` on: `dims[0]` channels in q and k, `dims[1]` channels in v. The result has `dims[1]`
    channels per head and the pixels of q.

    With `window`, only pixels of the same window see each other. A window has window[0] x window[1] pixels, `every`
    pixels apart. The windows start `shift` pixels below and right of the corner and go around the border; `apart` is
    added where a border is between two pixels of a window.

    Args:
        pairs: the pixels of a window in q and in k that the bias (heads, q, k) is for; None without a bias.
        was: the heads before pruning, if there were more.
    """

    op: Literal["attention"]
    inputs: tuple[Value, Value, Value]
    heads: Side
    dims: Pair
    first: Triple
    step: Triple
    scale: float
    pairs: Pair | None = None
    window: Pair | None = None
    every: Pair = (1, 1)
    shift: tuple[Amount, Amount] = (0, 0)
    apart: float = 0.0
    was: Side | None = None

    @override
    def tensors(self, channels: int) -> dict[str, tuple[int, ...]]:
        return {} if self.pairs is None else {"bias": (self.heads, *self.pairs)}

    @override
    def shape(self, inputs: Sequence[Shape]) -> Shape:
        dims = (self.dims[0], self.dims[0], self.dims[1])
        for source, first, step, dim in zip(inputs, self.first, self.step, dims, strict=True):
            if first + (self.heads - 1) * step + dim > source[0]:
                raise BundleError(f"reads {self.heads} heads of {dim} channels from {first} on in a value {source}")
        if prod(inputs[1][1:]) != prod(inputs[2][1:]):
            raise BundleError(f"has keys {inputs[1]} for values {inputs[2]}")
        _, height, width = inputs[0]
        if self.window is not None:
            if any(source[1:] != inputs[0][1:] for source in inputs):
                raise BundleError(f"has windows, but its inputs are {list(inputs)}")
            spans = [self.window[axis] * self.every[axis] for axis in (0, 1)]
            if height % spans[0] or width % spans[1] or self.shift[0] >= height or self.shift[1] >= width:
                raise BundleError(f"has windows {self.window} that do not fit its input {inputs[0]}")
        pairs = self.window_pixels(inputs)
        if self.pairs is not None and pairs != self.pairs:
            raise BundleError(f"has a bias for {self.pairs} pixels of a window, which has {pairs}")
        result = self.heads * self.dims[1], height, width
        if pairs[0] * pairs[1] > MAX_NUMBERS or self.heads * height * width * pairs[1] > MAX_WINDOW_NUMBERS:
            raise BundleError(f"compares {pairs[0]} with {pairs[1]} pixels in {self.heads} heads")
        return result

    @override
    def rule(self, inputs: Sequence[Shape]) -> ChannelRule:
        return "attended" if self._has_whole_heads([shape[0] for shape in inputs]) else "mixed"

    @override
    def on_uniform_images(self) -> Attention:
        update = {"pairs": None if self.pairs is None else (1, 1), "window": None}
        return self.model_copy(update=update)

    def head_channels(self, position: int) -> Integers:
        """Return the channels of each head in q, k or v: (heads, channels of a head)."""
        dim = self.dims[1] if position == 2 else self.dims[0]
        channels: Integers = (
            self.first[position] + self.step[position] * np.arange(self.heads)[:, None] + np.arange(dim)
        )
        return channels

    def _has_whole_heads(self, counts: Sequence[int]) -> bool:
        """Return whether any heads can be removed with all their channels, and the others stay equally far apart.

        That is so where the heads of q, of k and of v follow each other without a gap, and where each head has its
        channels of q, k and v side by side and nothing is between two heads.
        """
        dims = (self.dims[0], self.dims[0], self.dims[1])
        if all(step == dim for step, dim in zip(self.step, dims, strict=True)):
            return True
        return len(set(self.inputs)) == 1 and set(self.step) == {sum(dims)} and self.heads * sum(dims) == counts[0]

    @override
    def pixelwise_inputs(self) -> tuple[int, ...]:
        return (0,) if self.window is None and self.pairs is None else ()

    @override
    def macs(self, inputs: Sequence[Shape]) -> int:
        """Count those of both products: of queries with keys, and of their weights with values."""
        _, height, width = inputs[0]
        return self.heads * height * width * self.window_pixels(inputs)[1] * sum(self.dims)

    @override
    def removed_macs(self, inputs: Sequence[Shape]) -> int:
        return self.macs(inputs) // self.heads * ((self.was or self.heads) - self.heads)

    def window_pixels(self, inputs: Sequence[Shape]) -> tuple[int, int]:
        """Return the pixels of one window, or of the whole values: those of q, and those of k and v."""
        if self.window is not None:
            return prod(self.window), prod(self.window)
        return prod(inputs[0][1:]), prod(inputs[1][1:])

    def windows(self, sides: Sequence[int]) -> Integers:
        """Return the numbers of the pixels of every window of a value with these sides: (windows, pixels)."""
        assert self.window is not None
        rows, columns = (
            _along(sides[axis], self.window[axis], self.every[axis], self.shift[axis])[0] for axis in (0, 1)
        )
        pixels: Integers = rows[:, None, :, None] * sides[1] + columns[None, :, None, :]
        return pixels.reshape(-1, prod(self.window))

    def regions(self, sides: Sequence[int]) -> Integers:
        """Return for every pixel of every window which borders lie before it: equal numbers, no border between."""
        assert self.window is not None
        rows, columns = (
            _along(sides[axis], self.window[axis], self.every[axis], self.shift[axis])[1] for axis in (0, 1)
        )
        regions: Integers = 2 * rows[:, None, :, None] + columns[None, :, None, :]
        return regions.reshape(-1, prod(self.window))


def _along(side: int, window: int, every: int, shift: int) -> tuple[Integers, Integers]:
    """Return the rows of every window along one axis, (windows, rows), and whether they are beyond the border."""
    count = side // window
    start = np.arange(count) // every * window * every + np.arange(count) % every
    rows = shift + start[:, None] + every * np.arange(window)
    return rows % side, (rows >= side).astype(np.int64)
