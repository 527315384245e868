"""Count kernels, weights and multiply-accumulates from shapes and masks, in integers.

MACs: one multiply-accumulate = 1, one image, convolutions only (biases, norms and heads left out); FLOPs = 2 x MACs.
Params: weights of the union of all domains' kernels at 32 bits plus 1 bit per switch and domain, classifiers left out.

Legend: D = domains, O = output channels, I = input channels of one group.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
import numpy.typing as npt

Masks = Mapping[str, npt.NDArray[np.bool_]]  # layer -> (D, O, I)


@dataclass(frozen=True)
class LayerCost:
    """What one kernel of a layer costs, and which domain uses how many of them."""

    name: str
    num_kernels: int
    kernel_area: int
    positions: int
    used: tuple[int, ...]
    union: int
    intersection: int


@dataclass(frozen=True)
class CostReport:
    """The costs of a multi-domain model; each question is a method, each ratio is relative to the dense backbone."""

    domains: tuple[str, ...]
    layers: tuple[LayerCost, ...]
    has_switches: bool = True

    def num_switches(self) -> int:
        """Count the kernels of the backbone."""
        return sum(layer.num_kernels for layer in self.layers)

    def usage(self, domain: str) -> float:
        """Give the share of all kernels that a domain uses."""
        place = self.domains.index(domain)
        return self._share(layer.used[place] for layer in self.layers)

    def union(self) -> float:
        """Give the share of all kernels that any domain uses."""
        return self._share(layer.union for layer in self.layers)

    def intersection(self) -> float:
        """Give the share of all kernels that every domain uses."""
        return self._share(layer.intersection for layer in self.layers)

    def sparsity(self) -> float:
        """Give the mean over layers of the share of kernels that no domain uses."""
        return float(sum(1 - Fraction(layer.union, layer.num_kernels) for layer in self.layers) / len(self.layers))

    def macs(self, domain: str) -> int:
        """Count a domain's multiply-accumulates for one image."""
        place = self.domains.index(domain)
        return sum(layer.used[place] * layer.kernel_area * layer.positions for layer in self.layers)

    def dense_macs(self) -> int:
        """Count the backbone's multiply-accumulates for one image."""
        return sum(layer.num_kernels * layer.kernel_area * layer.positions for layer in self.layers)

    def macs_ratio(self, domain: str) -> float:
        """Compare a domain's MACs with the backbone's."""
        return self.macs(domain) / self.dense_macs()

    def mean_macs_ratio(self, with_source: bool = False) -> float:
        """Average over the domains; BA²'s convention adds the source domain, run unpruned, at 1."""
        ratios = [self.macs_ratio(domain) for domain in self.domains]
        return (sum(ratios) + with_source) / (len(ratios) + with_source)

    def params_ratio(self) -> float:
        """Compare the bits of union weights and switches with those of the backbone's convolutions."""
        dense_bits = sum(32 * layer.num_kernels * layer.kernel_area for layer in self.layers)
        union_bits = sum(32 * layer.union * layer.kernel_area for layer in self.layers)
        switch_bits = len(self.domains) * self.num_switches() if self.has_switches else 0
        return (union_bits + switch_bits) / dense_bits

    def _share(self, counts: Iterable[int]) -> float:
        return sum(counts) / self.num_switches()


def count_costs(
    masks: Masks,
    areas: Mapping[str, int],
    positions: Mapping[str, int],
    domains: Sequence[str],
    has_switches: bool = True,
) -> CostReport:
    """Count what each domain uses in each layer; `positions` are the output pixels a layer computes for one image."""
    layers = tuple(
        LayerCost(
            name,
            mask_DOI[0].size,
            areas[name],
            positions[name],
            tuple(int(mask_OI.sum()) for mask_OI in mask_DOI),
            int(mask_DOI.any(0).sum()),
            int(mask_DOI.all(0).sum()),
        )
        for name, mask_DOI in masks.items()
    )
    return CostReport(tuple(domains), layers, has_switches)
