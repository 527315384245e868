"""Where the heads of an attention lie in a value.

Legend: W = windows, H = heads, P = pixels of a window, C = channels of a head.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

import torch
from torch import Tensor

from prunus.graph.operations import Shape
from prunus.lowering.builder import GraphBuilder
from prunus.lowering.views import View


@dataclass(frozen=True)
class Heads:
    """The heads of q, of k or of v: head h has the channels of its value from `first` + h * `step` on.

    Args:
        pixels: of each window, (W, P).
        factor: what the numbers are multiplied by.
    """

    value: int
    first: int
    step: int
    pixels: Tensor
    factor: float

    def are_whole(self, shape: Shape) -> bool:
        """Return whether one window has all pixels of a value of a shape, in their order."""
        return torch.equal(self.pixels, torch.arange(prod(shape[1:]))[None])


def positions_of_heads(view: View) -> Tensor:
    """Return the positions of a view, (..., H, P, C), which those of an attention always have."""
    assert view.positions is not None
    return view.positions


def find_heads(view: View, shape: Shape) -> Heads | None:
    """Find the heads of a view (..., P, C) in its value, which has a shape.

    The leading axes are those of windows, which are different pixels, and then those of heads, which are different
    channels.
    """
    positions = positions_of_heads(view)
    *lead, count, dim = positions.shape
    size = prod(shape[1:])
    channels, pixels = positions // size, positions % size
    if _varies(pixels, -1) or _varies(channels, -2):
        return None
    axes = range(len(lead))
    outer = _window_axes([_varies(pixels, axis) for axis in axes], [_varies(channels, axis) for axis in axes])
    if outer is None:
        return None
    windows = prod(lead[:outer])
    channels_WHPC = channels.reshape(windows, -1, count, dim)
    pixels_WP = pixels.reshape(windows, -1, count, dim)[:, 0, :, 0]
    first_H = channels_WHPC[0, :, 0, 0]
    step = int(first_H[1] - first_H[0]) if len(first_H) > 1 else dim
    expected_HC = first_H[0] + step * torch.arange(len(first_H))[:, None] + torch.arange(dim)
    if step < 0 or bool((channels_WHPC != expected_HC[:, None]).any()):
        return None
    return Heads(view.value, int(first_H[0]), step, pixels_WP, view.factor)


def _window_axes(are_windows: Sequence[bool], are_heads: Sequence[bool]) -> int | None:
    """Return how many axes come before those of the heads; None if they are mixed.

    Where nothing varies, the last axis is that of the heads: of one, or of one that is read many times.
    """
    outer = len(are_heads) - sum(are_heads)
    if any(are_heads[:outer]) or any(are_windows[outer:]):
        return None
    return outer if any(are_heads) or any(are_windows) else max(outer - 1, 0)


def _varies(numbers: Tensor, axis: int) -> bool:
    return bool((numbers != numbers.narrow(axis, 0, 1)).any())


def copy_heads(builder: GraphBuilder, view: View) -> Heads:
    """Copy a view (..., H, P, C) to a value with a row of pixels for each window."""
    positions = positions_of_heads(view)
    *lead, heads, count, dim = positions.shape if positions.ndim > 2 else (1, *positions.shape)
    windows = prod(lead)
    moved = positions.reshape(windows, heads, count, dim).permute(1, 3, 0, 2)
    value = builder.copied(View(view.value, moved), moved.shape, (heads * dim, windows, count))
    return Heads(value, 0, dim, torch.arange(windows * count).reshape(windows, count), view.factor)
