"""Measure what a network with certain masks would take, as its model file would have it.

Legend: D = domains, M = switches of a domain, K = kernels.
"""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Protocol

import numpy as np
from torch import Tensor

from prunus.arrays import Bools, DType
from prunus.budgets.limits import Usage, cost_usage
from prunus.bundle.bundle import Bundle
from prunus.bundle.file import bundle_size
from prunus.graph.network import GraphNetwork
from prunus.lowering.pack import Description, bundle_of
from prunus.masks.layout import SwitchLayout
from prunus.measure.bundle_cost import bundle_costs
from prunus.measure.cost import CostReport, count_layer

HEADROOM = 16  # bytes, for a header that names longer versions of packages than now


class Meter(Protocol):
    """Something that measures masks."""

    def usage(self, mask_DM: Tensor) -> Usage:
        """Return what the network takes if each domain uses these switches."""
        ...


@dataclass(frozen=True)
class FileMeter:
    """Packs the network in memory: kernels that nothing reads are not in a file, and do not count."""

    network: GraphNetwork
    description: Description
    layout: SwitchLayout
    dtype: DType

    def usage(self, mask_DM: Tensor) -> Usage:
        """Return what the model file would have."""
        return bundle_usage(self.bundle(mask_DM), self.dtype, HEADROOM)

    def empty_layers(self, mask_DM: Tensor) -> list[str]:
        """Return the layers of which the model file would have no kernel."""
        bundle = self.bundle(mask_DM)
        return [layer for layer in bundle.manifest.convs if not len(bundle.arrays[f"kernels/{layer}"])]

    def bundle(self, mask_DM: Tensor) -> Bundle:
        """Return the model file with these switches."""
        masks = layer_masks(self.layout, mask_DM)
        network = replace(self.network, masks={layer: masks[layer] for layer in self.network.masks})
        return bundle_of(network, self.description)


@dataclass(frozen=True)
class MaskMeter:
    """Counts switches, for networks that no model file can hold."""

    layout: SwitchLayout
    positions: Mapping[str, int]
    product_macs: int = 0

    def empty_layers(self, mask_DM: Tensor) -> list[str]:
        """Return the layers of which no switch is on."""
        return [layer for layer, mask_DOI in layer_masks(self.layout, mask_DM).items() if not mask_DOI.any()]

    def usage(self, mask_DM: Tensor) -> Usage:
        """Return what the masks select."""
        masks = layer_masks(self.layout, mask_DM)
        layers = [
            count_layer(conv.name, masks[conv.name], conv.kernel_area, self.positions[conv.name])
            for conv in self.layout.convs
            if conv.name in self.positions
        ]
        domains = tuple(str(row) for row in range(len(mask_DM)))
        return cost_usage(CostReport(domains, tuple(layers), (), product_macs=self.product_macs), None)


@dataclass(frozen=True)
class RememberingMeter:
    """Measures every mask once, for a search that asks for some of them again and again."""

    meter: Meter
    known: dict[bytes, Usage] = field(default_factory=dict)

    def usage(self, mask_DM: Tensor) -> Usage:
        """Return what the network takes; it must not have changed since the first measurement."""
        key = hashlib.blake2b(np.packbits(mask_DM.cpu().numpy()).tobytes()).digest()
        if key not in self.known:
            self.known[key] = self.meter.usage(mask_DM)
        return self.known[key]


NetworkMeter = FileMeter | MaskMeter


def layer_masks(layout: SwitchLayout, mask_DM: Tensor) -> dict[str, Bools]:
    """Return the kernels that each domain uses: layer -> (D, O, I)."""
    rows_DK = np.split(
        layout.spread(mask_DM).cpu().numpy(), np.cumsum([conv.num_kernels for conv in layout.convs])[:-1], axis=1
    )
    return {
        conv.name: row_DK.reshape(-1, conv.out_channels, conv.in_channels)
        for conv, row_DK in zip(layout.convs, rows_DK, strict=True)
    }


def bundle_usage(bundle: Bundle, dtype: DType, headroom: int = 0) -> Usage:
    """Return what a model file takes."""
    return cost_usage(bundle_costs(bundle), bundle_size(bundle, dtype) + headroom)
