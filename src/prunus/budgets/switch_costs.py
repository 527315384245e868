"""What one switch costs: kernels, weights, bytes of the file, and MACs of one image.

Legend: M = switches of a domain.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

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
    kernels_M = _by_switch(layout, lambda conv: float(conv.name in positions))
    weights_M = _by_switch(layout, lambda conv: conv.kernel_area * float(conv.name in positions))
    macs_M = _by_switch(layout, lambda conv: float(conv.kernel_area * positions.get(conv.name, 0)))
    bytes_M = weights_M * STORED[dtype].itemsize + kernels_M * num_domains / 8
    layer_M = torch.arange(len(layout.sizes)).repeat_interleave(torch.tensor(layout.sizes))
    return SwitchCosts(*(row.to(device) for row in (kernels_M, weights_M, bytes_M, macs_M, layer_M)))


def _by_switch(layout: SwitchLayout, cost: Callable[[ConvShape], float]) -> Tensor:
    """Add up what the kernels of each switch cost, given the cost of a convolution's kernel."""
    return layout.totals(
        {conv.name: torch.full((conv.out_channels, conv.in_channels), cost(conv)).double() for conv in layout.convs}
    )
