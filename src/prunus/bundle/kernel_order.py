"""The order of a layer's kernels in a file, chosen for the way runtimes read them.

Kernels of more than one pixel are ordered by group, input and output: a runtime adds one input after the other to many
outputs. Kernels of one pixel are ordered by group, output and input: they are the rows of a matrix.

Legend: O = output channels, I = input channels of one group.
"""

from typing import TypeVar

import numpy as np
import numpy.typing as npt

from prunus.bundle.manifest import ConvEntry

Number = TypeVar("Number", bound=np.generic)


def to_stored(array_OI: npt.NDArray[Number], conv: ConvEntry) -> npt.NDArray[Number]:
    """Arrange (O, I, ...) in the order of the file: (O * I, ...)."""
    pixels = array_OI.shape[2:]
    grouped = array_OI.reshape(conv.groups, -1, conv.in_channels, *pixels)
    return (grouped.swapaxes(1, 2) if _inputs_first(conv) else grouped).reshape(conv.num_kernels, *pixels)


def from_stored(stored: npt.NDArray[Number], conv: ConvEntry) -> npt.NDArray[Number]:
    """Arrange (O * I, ...) in the order of the file as (O, I, ...)."""
    outputs = conv.out_channels // conv.groups
    pixels = stored.shape[1:]
    if _inputs_first(conv):
        grouped = stored.reshape(conv.groups, conv.in_channels, outputs, *pixels).swapaxes(1, 2)
    else:
        grouped = stored.reshape(conv.groups, outputs, conv.in_channels, *pixels)
    return grouped.reshape(conv.out_channels, conv.in_channels, *pixels)


def output_numbers(conv: ConvEntry) -> npt.NDArray[np.int64]:
    """Return the output channel of every kernel, in the order of the file: (O * I,)."""
    outputs = np.arange(conv.out_channels)[:, None]
    return to_stored(np.broadcast_to(outputs, (conv.out_channels, conv.in_channels)), conv)


def _inputs_first(conv: ConvEntry) -> bool:
    return conv.kernel[0] * conv.kernel[1] > 1
