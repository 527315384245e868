"""Programs of one 8-bit step, and a plain reference for convolutions that shares no code with the engines."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from prunus.arrays import Floats
from prunus.runtime import _native

# Legend: C = channels, H = height, W = width, O = outputs, I = inputs of a group, KL = rows and columns of a kernel
Integers = npt.NDArray[np.int64]
Shape = tuple[int, int, int]


def packed(bits: npt.NDArray[Any]) -> npt.NDArray[np.uint8]:
    return np.packbits(bits.ravel().astype(bool), bitorder="little")


def rounded(numbers: Floats, low: int = 0, high: int = 255) -> Integers:
    assert numbers.dtype == np.float32
    return np.rint(np.clip(numbers, low, high)).astype(np.int64)


class Chain:
    """A program of one domain: the image is quantized, one step follows, and the classifier copies its codes."""

    def __init__(self, shapes: Sequence[Shape], zeros: Sequence[int], kernels: str = "auto", threads: int = 1) -> None:
        self.program = _native.Program([shapes[0], *shapes], 1, threads, kernels)
        self._shapes = shapes
        self._zeros = zeros
        self.program.add_quantize(0, [1.0], [zeros[0]])

    def codes(self, image_CHW: Integers) -> Integers:
        """Return the codes of the last value; those of the first are given."""
        for value, zero in enumerate(self._zeros, start=1):
            self.program.set_value_zeros(value, [zero])
        count = int(np.prod(self._shapes[-1]))
        ones = np.ones(count, np.float32)
        self.program.set_integer_head(0, np.eye(count, dtype=np.int8), ones, np.zeros_like(ones))
        self.program.finish()
        logits = np.empty((1, count), np.float32)
        image = (image_CHW - self._zeros[0]).astype(np.float32)[None]
        assert self.program.run(image, 0, logits)
        return logits.astype(np.int64).reshape(self._shapes[-1])


def convolved(codes: Integers, kernels_OIKL: Integers, fields: dict[str, Any], zero: int) -> Integers:
    """Return the sums of a convolution, one window at a time."""
    stride, pads, dilation, groups = (fields[key] for key in ("stride", "pads", "dilation", "groups"))
    padded = np.pad(codes, ((0, 0), (pads[0], pads[2]), (pads[1], pads[3])), constant_values=zero)
    outputs, inputs, rows, columns = kernels_OIKL.shape
    reach = [(side - 1) * gap + 1 for side, gap in zip((rows, columns), dilation, strict=True)]
    height, width = ((padded.shape[1 + axis] - reach[axis]) // stride[axis] + 1 for axis in (0, 1))
    sums = np.zeros((outputs, height, width), np.int64)
    for o in range(outputs):
        first = o // (outputs // groups) * inputs
        for r in range(height):
            for c in range(width):
                top, left = r * stride[0], c * stride[1]
                window = padded[first : first + inputs, top : top + reach[0] : dilation[0], left : left + reach[1]]
                sums[o, r, c] = (window[:, :, :: dilation[1]] * kernels_OIKL[o]).sum()
    return sums


def stored(kernels_OIKL: Integers, kept_OI: npt.NDArray[np.bool_], groups: int) -> tuple[Any, Any]:
    """Return the bits and the kept kernels in the order of model files."""
    outputs, inputs, rows, columns = kernels_OIKL.shape
    by_group = kernels_OIKL.reshape(groups, outputs // groups, inputs, rows * columns)
    bits = kept_OI.reshape(groups, outputs // groups, inputs)
    if rows * columns > 1:
        by_group, bits = by_group.swapaxes(1, 2), bits.swapaxes(1, 2)
    return packed(bits), np.ascontiguousarray(by_group[bits], dtype=np.int8)
