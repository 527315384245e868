"""Count kernels, weights and multiply-accumulates from shapes and masks, in integers.

MACs: one multiply-accumulate = 1, one image, convolutions, linear layers and the products of attention (no biases,
norms or heads); FLOPs = 2 x MACs. A linear layer is a convolution of 1x1 kernels, one per weight.
Params: convolution weights at 32 bits that any domain reads or owns, plus 1 bit per switch and domain; no norms and
no classifiers.

Legend: D = domains, O = output channels, I = input channels of one group, B = bytes of eight kernels each.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from prunus.arrays import Bools, Bytes
from prunus.measure.sharing import count_bits


@dataclass(frozen=True)
class LayerCost:
    """One convolution of the backbone, and how many of its kernels each domain uses.

    Args:
        kernel_area: weights of one kernel.
        positions: output pixels of one image.
        used: by domain.
        union: kernels that any domain uses.
        intersection: kernels that all domains use.
        weights_read: frozen weights that any domain reads.
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
    """What one domain adds to the backbone.

    Args:
        bits: of its own convolution weights and switches.
        side_bits: of its norms, its classifier and the like, which `params_ratio` does not count.
        macs: of its own branches, for one image.
    """

    bits: int = 0
    side_bits: int = 0
    macs: int = 0


@dataclass(frozen=True)
class CostReport:
    """The costs of a multi-domain model; ratios are relative to the dense backbone.

    Args:
        own: what each domain adds.
        shared_bits: of convolution weights beside the backbone's that all domains share.
        side_bits: of everything else that all domains share, such as the backbone's biases.
        product_macs: of products of values with each other, as in attention, which every domain computes in full.
        removed_macs: of such products that the backbone has and the model does not: those of removed heads.
    """

    domains: tuple[str, ...]
    layers: tuple[LayerCost, ...]
    own: tuple[DomainCost, ...]
    shared_bits: int = 0
    side_bits: int = 0
    product_macs: int = 0
    removed_macs: int = 0

    def num_kernels(self) -> int:
        """Count the kernels of the backbone."""
        return sum(layer.num_kernels for layer in self.layers)

    def usage(self, domain: str) -> float:
        """Return the share of all kernels that a domain uses."""
        index = self.domains.index(domain)
        return self._share(layer.used[index] for layer in self.layers)

    def layer_usage(self, layer: LayerCost) -> dict[str, float]:
        """Return the share of a layer's kernels that each domain uses."""
        return {domain: used / layer.num_kernels for domain, used in zip(self.domains, layer.used, strict=True)}

    def union(self) -> float:
        """Return the share of all kernels that any domain uses."""
        return self._share(layer.union for layer in self.layers)

    def intersection(self) -> float:
        """Return the share of all kernels that every domain uses."""
        return self._share(layer.intersection for layer in self.layers)

    def sparsity(self) -> float:
        """Return the mean over layers of the share of kernels that no domain uses."""
        return float(sum(1 - Fraction(layer.union, layer.num_kernels) for layer in self.layers) / len(self.layers))

    def macs(self, domain: str) -> int:
        """Count a domain's multiply-accumulates for one image."""
        index = self.domains.index(domain)
        kernels = sum(layer.used[index] * layer.kernel_area * layer.positions for layer in self.layers)
        own = self.own[index].macs if self.own else 0
        return kernels + own + self.product_macs

    def dense_macs(self) -> int:
        """Count the backbone's multiply-accumulates for one image."""
        kernels = sum(layer.num_kernels * layer.kernel_area * layer.positions for layer in self.layers)
        return kernels + self.product_macs + self.removed_macs

    def macs_ratio(self, domain: str) -> float:
        """Divide a domain's MACs by the backbone's."""
        return self.macs(domain) / self.dense_macs()

    def mean_macs_ratio(self, with_source: bool = False) -> float:
        """Average over the domains; BA²'s convention adds the source domain, run unpruned, at 1."""
        ratios = [self.macs_ratio(domain) for domain in self.domains] + ([1.0] if with_source else [])
        return sum(ratios) / len(ratios)

    def params_bits(self, with_source: bool = False) -> int:
        """Count the bits of all convolution weights and switches; a source domain, unadapted, reads every weight."""
        kept = self.dense_bits() if with_source else sum(32 * layer.weights_read for layer in self.layers)
        return kept + self.shared_bits + sum(own.bits for own in self.own)

    def dense_weights(self) -> int:
        """Count the backbone's convolution weights."""
        return sum(layer.num_kernels * layer.kernel_area for layer in self.layers)

    def dense_bits(self) -> int:
        """Count the bits of the backbone's convolution weights."""
        return 32 * self.dense_weights()

    def params_ratio(self, with_source: bool = False) -> float:
        """Divide the bits of weights and switches by those of the backbone's convolutions."""
        return self.params_bits(with_source) / self.dense_bits()

    def stored_bytes(self) -> int:
        """Count the bytes of everything the domains need, including norms and classifiers."""
        return -(-(self.params_bits() + self.side_bits + sum(own.side_bits for own in self.own)) // 8)

    def _share(self, counts: Iterable[int]) -> float:
        return sum(counts) / self.num_kernels()


def count_layer(
    name: str, mask_DOI: Bools, kernel_area: int, positions: int, weights_read: int | None = None
) -> LayerCost:
    """Count what each domain uses of one convolution.

    Args:
        weights_read: frozen weights that any domain reads (default: those of every used kernel).
    """
    packed_DB = np.packbits(mask_DOI.reshape(len(mask_DOI), -1), axis=1)
    return count_packed_layer(name, packed_DB, mask_DOI[0].size, kernel_area, positions, weights_read)


def count_packed_layer(  # what one kernel costs, and who uses which
    name: str, packed_DB: Bytes, num_kernels: int, kernel_area: int, positions: int, weights_read: int | None = None
) -> LayerCost:
    """Count what each domain uses of one convolution whose masks are packed into bits.

    Args:
        num_kernels: of the backbone's layer; masks may have fewer bits where channels were removed.
    """
    union = int(count_bits(np.bitwise_or.reduce(packed_DB, axis=0)))
    return LayerCost(
        name,
        num_kernels,
        kernel_area,
        positions,
        tuple(count_bits(packed_DB).tolist()),
        union,
        int(count_bits(np.bitwise_and.reduce(packed_DB, axis=0))),
        union * kernel_area if weights_read is None else weights_read,
    )
