"""The order in which a layer's kernels are counted in a file, as runtimes read them.

Kernels of more than one pixel go by group, then input, then output: a runtime takes one input after the other and adds
it to many outputs. Kernels of one pixel go by group, then output, then input: rows of a matrix.
"""

from __future__ import annotations

from typing import TypeVar

import numpy as np
import numpy.typing as npt

from prunus.bundle.manifest import ConvEntry

Number = TypeVar("Number", bound=np.generic)


def to_stored(array_OI: npt.NDArray[Number], conv: ConvEntry) -> npt.NDArray[Number]:
    """Put what lies by (output, input of a group), with anything behind, in the order of the file: one axis."""
    behind = array_OI.shape[2:]
    grouped = array_OI.reshape(conv.groups, -1, conv.in_channels, *behind)
    return (grouped.swapaxes(1, 2) if _inputs_first(conv) else grouped).reshape(conv.num_kernels, *behind)


def from_stored(stored: npt.NDArray[Number], conv: ConvEntry) -> npt.NDArray[Number]:
    """Put what lies in the order of the file back by (output, input of a group)."""
    outputs, behind = conv.out_channels // conv.groups, stored.shape[1:]
    if _inputs_first(conv):
        grouped = stored.reshape(conv.groups, conv.in_channels, outputs, *behind).swapaxes(1, 2)
    else:
        grouped = stored.reshape(conv.groups, outputs, conv.in_channels, *behind)
    return grouped.reshape(conv.out_channels, conv.in_channels, *behind)


def _inputs_first(conv: ConvEntry) -> bool:
    return conv.kernel[0] * conv.kernel[1] > 1
