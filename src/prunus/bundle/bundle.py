"""A pruned multi-domain model as arrays: only kernels that some domain uses, and who uses which.

Names of the arrays, with K the number of kernels that the union keeps of a layer and n the number of an operation:

    union/<layer>              a bit per kernel of the layer: is it kept
    kernels/<layer>            (K, height, width) float32, in the order of those bits
    mask/<domain>/<layer>      K bits: does this domain use the kernel
    norm/<domain>/<n>.<role>   a tensor of an operation that differs between domains: its scale, bias or ones
    shared/<n>.<role>          a tensor of an operation that is the same in all domains
    head/<domain>/weight|bias  the domain's classifier

Kernels of more than one pixel are ordered by group, then input, then output; others by group, then output, then input:
as runtimes read them.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from prunus.bundle.bits import Bools, unpack_bits
from prunus.bundle.manifest import Manifest
from prunus.errors import UnknownNameError
from prunus.images import Floats

Array = npt.NDArray[np.generic]


@dataclass(frozen=True)
class Bundle:
    """A model file in memory."""

    manifest: Manifest
    arrays: dict[str, Array]

    @property
    def domains(self) -> tuple[str, ...]:
        """Name the domains in order."""
        return tuple(self.manifest.domains)

    def check_domain(self, domain: str) -> None:
        """Refuse a domain that the model does not serve."""
        if domain not in self.manifest.domains:
            raise UnknownNameError("domain", domain, self.domains)

    def union(self, layer: str) -> Bools:
        """Give which kernels of a layer are kept: (output, input)."""
        conv = self.manifest.convs[layer]
        bits = unpack_bits(self.arrays[f"union/{layer}"].astype(np.uint8), conv.num_kernels)
        return bits.reshape(conv.out_channels, conv.in_channels)

    def mask(self, domain: str, layer: str) -> Bools:
        """Give which kernels of a layer a domain uses: (output, input)."""
        kept = self.union(layer)
        mask = np.zeros_like(kept)
        mask[kept] = unpack_bits(self.arrays[f"mask/{domain}/{layer}"].astype(np.uint8), int(kept.sum()))
        return mask

    def weight(self, layer: str, mask: Bools) -> Floats:
        """Give a layer's dense weight with the kernels of a mask in place and zeros elsewhere."""
        kept = self.union(layer)
        weight = np.zeros((*kept.shape, *self.manifest.convs[layer].kernel), dtype=np.float32)
        weight[kept] = self.arrays[f"kernels/{layer}"]
        weight[~mask] = 0
        return weight

    def tensor(self, domain: str, operation: int, role: str) -> Floats | None:
        """Give a tensor of an operation, if it has one of that role."""
        key = f"{operation}.{role}"
        found = self.arrays.get(f"norm/{domain}/{key}", self.arrays.get(f"shared/{key}"))
        return None if found is None else found.astype(np.float32, copy=False)

    def named(self, prefix: str) -> dict[str, Array]:
        """Give the arrays under a prefix, by the rest of their names."""
        return {name.removeprefix(prefix): array for name, array in self.arrays.items() if name.startswith(prefix)}

    def layer_masks(self) -> dict[str, Bools]:
        """Give all masks: layer -> (domain, output, input)."""
        return {layer: np.stack([self.mask(domain, layer) for domain in self.domains]) for layer in self.manifest.convs}
