"""What one switch costs: kernels, weights, bytes of the file, and MACs of one image.

Legend: M = switches of a domain.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from prunus.arrays import DType
from prunus.bundle.dtypes import STORED
from prunus.masks.layout import SwitchLayout


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
    kernels_by_layer = [layout.num_kernels(conv).flatten() for conv in layout.convs]
    counts = torch.tensor([len(row) for row in kernels_by_layer])
    runs = [float(conv.name in positions) for conv in layout.convs]
    areas = [conv.kernel_area for conv in layout.convs]
    pixels = [positions.get(conv.name, 0) for conv in layout.convs]
    runs_M, areas_M, pixels_M = (_by_switch(row, counts) for row in (runs, areas, pixels))
    kernels_M = torch.cat(kernels_by_layer) * runs_M
    weights_M = kernels_M * areas_M
    bytes_M = weights_M * STORED[dtype].itemsize + kernels_M * num_domains / 8
    layer_M = torch.arange(len(layout.convs)).repeat_interleave(counts)
    rows = (kernels_M, weights_M, bytes_M, weights_M * pixels_M, layer_M)
    return SwitchCosts(*(row.to(device) for row in rows))


def _by_switch(numbers: Sequence[float], counts: Tensor) -> Tensor:
    """Repeat a number per layer for each of its switches."""
    return torch.tensor(numbers, dtype=torch.float64).repeat_interleave(counts)
