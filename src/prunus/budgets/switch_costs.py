"""What one switch costs: kernels, weights, bytes of the file, and MACs of one image.

Legend: M = switches of a domain.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from math import prod

import torch
from torch import Tensor

from prunus.arrays import DType
from prunus.bundle.dtypes import STORED
from prunus.masks.layout import ConvShape, SwitchLayout


@dataclass(frozen=True)
class SwitchCosts:
    """The cost of every switch: rows of M numbers, as float64.

    Args:
        bytes: of its weights and of every domain's mask bits; the rest of a file does not depend on single switches.
        layer: number of its layer.
    """

    kernels: Tensor
    weights: Tensor
    bytes: Tensor
    macs: Tensor
    layer: Tensor


def switch_costs(
    layout: SwitchLayout, positions: Mapping[str, int], num_domains: int, dtype: DType, device: torch.device
) -> SwitchCosts:
    """Count what each switch of a layout costs; a convolution that never runs costs nothing."""
    counts = torch.tensor([prod(layout.shape(conv)) for conv in layout.convs])
    kernels = [_kernels(layout, conv) if conv.name in positions else 0 for conv in layout.convs]
    weights = [count * conv.kernel_area for count, conv in zip(kernels, layout.convs, strict=True)]
    macs = [count * positions.get(conv.name, 0) for count, conv in zip(weights, layout.convs, strict=True)]
    sizes = [count * STORED[dtype].itemsize + of * num_domains / 8 for count, of in zip(weights, kernels, strict=True)]
    rows = [torch.tensor(row, dtype=torch.float64).repeat_interleave(counts) for row in (kernels, weights, sizes, macs)]
    layers = torch.arange(len(layout.convs)).repeat_interleave(counts)
    kernels_M, weights_M, bytes_M, macs_M, layer_M = (row.to(device) for row in (*rows, layers))
    return SwitchCosts(kernels_M, weights_M, bytes_M, macs_M, layer_M)


def _kernels(layout: SwitchLayout, conv: ConvShape) -> int:
    return conv.num_kernels // prod(layout.shape(conv))
