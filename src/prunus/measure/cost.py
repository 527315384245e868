"""Count kernels, weights and multiply-accumulates from shapes and masks, in integers.

MACs: one multiply-accumulate = 1, one image, convolutions only (biases, norms and heads left out); FLOPs = 2 x MACs.
Params: convolution weights at 32 bits that any domain reads or owns plus 1 bit per switch and domain; norms and
classifiers left out.

Legend: D = domains, O = output channels, I = input channels of one group.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
import numpy.typing as npt


@dataclass(frozen=True)
class LayerCost:
    """One convolution of the backbone: what a kernel costs, and which domain uses how many of them.

    Args:
        weights_read: how many of the frozen weights some domain reads.
    """

    name: str
    num_kernels: int
    kernel_area: int
    positions: int
    used: tuple[int, ...]
    union: int
    intersection: int
    weights_read: int


@dataclass(frozen=True)
class DomainCost:
    """What a domain has beside the backbone.

    Args:
        bits: of its own convolution weights and switches.
        side_bits: of its norms, its classifier and the like, which `params_ratio` leaves out.
        macs: of its own branches, for one image.
    """

    bits: int = 0
    side_bits: int = 0
    macs: int = 0


@dataclass(frozen=True)
class CostReport:
    """The costs of a multi-domain model; each question is a method, each ratio is relative to the dense backbone.

    Args:
        shared_bits: of convolution weights that all domains keep together beside the backbone's.
        side_bits: of everything else that all domains keep together, such as the backbone's biases.
    """

    domains: tuple[str, ...]
    layers: tuple[LayerCost, ...]
    own: tuple[DomainCost, ...]
    shared_bits: int = 0
    side_bits: int = 0

    def num_kernels(self) -> int:
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
        kernels = sum(layer.used[place] * layer.kernel_area * layer.positions for layer in self.layers)
        return kernels + self.own[place].macs

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

    def params_bits(self, with_source: bool = False) -> int:
        """Count the bits of all convolution weights and switches; a source domain, unadapted, reads every weight."""
        kept = self.dense_bits() if with_source else sum(32 * layer.weights_read for layer in self.layers)
        return kept + self.shared_bits + sum(own.bits for own in self.own)

    def dense_bits(self) -> int:
        """Count the bits of the backbone's convolution weights."""
        return sum(32 * layer.num_kernels * layer.kernel_area for layer in self.layers)

    def params_ratio(self, with_source: bool = False) -> float:
        """Compare the bits of weights and switches with those of the backbone's convolutions."""
        return self.params_bits(with_source) / self.dense_bits()

    def stored_bytes(self) -> int:
        """Count the bytes of everything the domains need, norms and classifiers too."""
        return -(-(self.params_bits() + self.side_bits + sum(own.side_bits for own in self.own)) // 8)

    def _share(self, counts: Iterable[int]) -> float:
        return sum(counts) / self.num_kernels()


def count_layer(
    name: str,
    mask_DOI: npt.NDArray[np.bool_],
    kernel_area: int,
    positions: int,
    weights_read: int | None = None,
    num_kernels: int | None = None,
) -> LayerCost:
    """Count what each domain uses of one convolution.

    Args:
        weights_read: by default the weights of every used kernel.
        num_kernels: of the backbone's layer, where masks are of one from which channels are gone.
    """
    union = int(mask_DOI.any(0).sum())
    return LayerCost(
        name,
        mask_DOI[0].size if num_kernels is None else num_kernels,
        kernel_area,
        positions,
        tuple(int(mask_OI.sum()) for mask_OI in mask_DOI),
        union,
        int(mask_DOI.all(0).sum()),
        union * kernel_area if weights_read is None else weights_read,
    )
