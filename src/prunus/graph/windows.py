"""Count the windows that slide over an image, and the pixels in each."""

import numpy as np

from prunus.arrays import Doubles

Sides = tuple[int, int]  # height, width
Margins = tuple[int, int]  # before the image and after it, along one axis


def window_count(side: int, kernel: int, stride: int, pads: Margins) -> int:
    """Count the positions of a window along one side."""
    return (side + sum(pads) - kernel) // stride + 1


def window_count_ceil(side: int, kernel: int, stride: int, pads: Margins) -> int:
    """Count the positions where the last window may end after the padding, but must start before its end."""
    count = -(-(side + sum(pads) - kernel) // stride) + 1
    return count - 1 if (count - 1) * stride >= side + pads[0] else count


def pixels_per_window(side: int, count: int, kernel: int, stride: int, pads: Margins, counted: Margins) -> Doubles:
    """Count the pixels of every window along one side, at least 1: the image's, and `counted` ones of its padding."""
    starts = np.arange(count) * stride - pads[0]
    ends = np.minimum(starts + kernel, side + counted[1])
    pixels: Doubles = np.maximum(ends - np.maximum(starts, -counted[0]), 1).astype(np.float64)
    return pixels
