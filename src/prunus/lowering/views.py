"""Which numbers of which value of a graph a traced tensor shows, and in which order.

Torch itself computes where numbers go: a rearranging call is applied to a tensor of their positions. So a reshape, a
permutation, a chunk or a roll adds nothing to the graph until something needs its numbers in another order.

Legend: C = channels, P = pixels of a value, T = numbers of a tensor.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

import torch
from torch import Tensor

from prunus.graph.operations import Rearrange, Shape


@dataclass(frozen=True)
class View:
    """A traced tensor of one image.

    Args:
        positions: where in the value its numbers are, counted channel by channel, as a tensor of its shape; None if it
            has all of them in their order.
        factor: what its numbers are multiplied by.
    """

    value: int
    positions: Tensor | None = None
    factor: float = 1.0

    def over(self, shape: Sequence[int]) -> Tensor:
        """Return the positions as a tensor of the traced shape."""
        return torch.arange(prod(shape)).reshape(tuple(shape)) if self.positions is None else self.positions

    def shows_all(self, numbers: int) -> bool:
        """Return whether it has every number of its value once."""
        if self.positions is None:
            return True
        return _are_all(self.positions, numbers)


def _are_all(positions: Tensor, count: int) -> bool:
    """Return whether positions are those of all of so many numbers, each once."""
    return positions.numel() == count and torch.equal(positions.flatten().sort().values, torch.arange(count))


def pixels_of(positions: Tensor, axis: int, shape: Shape) -> Tensor | None:
    """Return the pixel of each place beside an axis that holds all channels, if the axis does and all pixels are there.

    The result has the tensor's shape without the axis.
    """
    pixels = shape[1] * shape[2]
    if positions.shape[axis] != shape[0] or positions.numel() != shape[0] * pixels:
        return None
    moved = positions.movedim(axis, 0)
    expected = pixels * torch.arange(shape[0]).reshape(-1, *[1] * (moved.ndim - 1)) + moved[0]
    return moved[0] if _are_all(moved[0], pixels) and bool((moved == expected).all()) else None


def positions_of(pixels: Tensor, axis: int, channels: int) -> Tensor:
    """Return the positions of a value with these pixels, and all channels along an axis."""
    count = pixels.numel()
    first = count * torch.arange(channels).reshape(-1, *[1] * pixels.ndim)
    return (first + pixels).movedim(0, axis)


def in_order(positions: Tensor) -> Tensor | None:
    """Return None for positions that are all in their order."""
    return None if bool((positions.flatten() == torch.arange(positions.numel())).all()) else positions


def rearrangement(value: int, positions_T: Tensor, target: Shape) -> Rearrange | None:
    """Return the operation that copies numbers from some positions, if they follow each other by strides."""
    offset = int(positions_T[0])
    rest = positions_T - offset
    sizes: list[int] = []
    strides: list[int] = []
    while len(rest) > 1:
        stride = int(rest[1] - rest[0])
        differs = (rest != stride * torch.arange(len(rest))).nonzero()
        size = int(differs[0]) if len(differs) else len(rest)
        if len(rest) % size or stride < 0:
            return None
        rows = rest.reshape(-1, size)
        if not bool((rows == rows[:, :1] + stride * torch.arange(size)).all()):
            return None
        sizes.insert(0, size)
        strides.insert(0, stride)
        rest = rows[:, 0]
    return Rearrange(
        op="rearrange",
        inputs=(value,),
        target=target,
        sizes=tuple(sizes) or (1,),
        strides=tuple(strides) or (0,),
        offset=offset,
    )
