"""A pruned multi-domain model as arrays: only kernels that some domain uses, and who uses which.

Names of the arrays, with K the number of kernels that the union keeps of a layer and n the number of an operation:

    union/<layer>              a bit per kernel of the layer: is it kept
    kernels/<layer>            (K, height, width) numbers, in the order of those bits
    mask/<domain>/<layer>      K bits: does this domain use the kernel
    norm/<domain>/<n>.<role>   a tensor of an operation that differs between domains: its scale, bias or ones
    shared/<n>.<role>          a tensor of an operation that is the same in all domains
    head/<domain>/weight|bias  the domain's classifier

Kernels and heads are as the file has them, half precision too: `widened` gives them as float32.
Kernels of more than one pixel are ordered by group, then input, then output; others by group, then output, then input:
as runtimes read them.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from prunus.arrays import Array, Bools, Bytes, Floats
from prunus.bundle.bits import unpack_bits
from prunus.bundle.dtypes import STORED, DType, widened
from prunus.bundle.manifest import Manifest
from prunus.bundle.order import from_stored, to_stored
from prunus.errors import UnknownNameError


@dataclass(frozen=True)
class Bundle:
    """A model file in memory."""

    manifest: Manifest
    arrays: dict[str, Array]

    @property
    def domains(self) -> tuple[str, ...]:
        """Name the domains in order."""
        return tuple(self.manifest.domains)

    @property
    def dtype(self) -> DType:
        """Name the type of kernels and heads."""
        stored = self.arrays[f"head/{self.domains[0]}/weight"].dtype
        return next((name for name, dtype in STORED.items() if dtype == stored), "float32")

    def check_domain(self, domain: str) -> None:
        """Refuse a domain that the model does not serve."""
        if domain not in self.manifest.domains:
            raise UnknownNameError("domain", domain, self.domains)

    def stored(self, layer: str) -> tuple[Bytes, Array]:
        """Give which kernels of a layer are kept, eight to a byte, and these (K, height, width), as in the file."""
        return _bytes(self.arrays[f"union/{layer}"]), self.arrays[f"kernels/{layer}"]

    def packed_mask(self, domain: str, layer: str) -> Bytes:
        """Give which of a layer's kept kernels a domain uses, in the order of the file, eight to a byte."""
        return _bytes(self.arrays[f"mask/{domain}/{layer}"])

    def packed_masks(self, layer: str) -> Bytes:
        """Give which of a layer's kept kernels every domain uses, eight to a byte: (domain, K / 8)."""
        return np.stack([self.packed_mask(domain, layer) for domain in self.domains])

    def kept(self, layer: str) -> Bools:
        """Give which kernels of a layer are kept, in the order of the file."""
        return unpack_bits(self.stored(layer)[0], self.manifest.convs[layer].num_kernels)

    def union(self, layer: str) -> Bools:
        """Give which kernels of a layer are kept: (output, input of a group)."""
        return from_stored(self.kept(layer), self.manifest.convs[layer])

    def mask(self, domain: str, layer: str) -> Bools:
        """Give which kernels of a layer a domain uses: (output, input of a group)."""
        return self._mask(domain, layer, self.kept(layer))

    def weight(self, layer: str, mask: Bools) -> Floats:
        """Give a layer's dense weight with the kernels of a mask in place and zeros elsewhere."""
        conv = self.manifest.convs[layer]
        weight = np.zeros((conv.num_kernels, *conv.kernel), dtype=np.float32)
        weight[self.kept(layer)] = widened(self.arrays[f"kernels/{layer}"])
        weight[~to_stored(mask, conv)] = 0
        return from_stored(weight, conv)

    def head(self, domain: str) -> tuple[Floats, Floats]:
        """Give the weight and the bias of a domain's classifier."""
        weight, bias = (widened(self.arrays[f"head/{domain}/{key}"]) for key in ("weight", "bias"))
        return weight, bias

    def tensor(self, domain: str, operation: int, role: str) -> Floats | None:
        """Give a tensor of an operation, if it has one of that role."""
        key = f"{operation}.{role}"
        found = self.arrays.get(f"norm/{domain}/{key}", self.arrays.get(f"shared/{key}"))
        return None if found is None else found.astype(np.float32, copy=False)

    def named(self, prefix: str) -> dict[str, Array]:
        """Give the arrays under a prefix, by the rest of their names."""
        return {name.removeprefix(prefix): array for name, array in self.arrays.items() if name.startswith(prefix)}

    def layer_masks(self) -> dict[str, Bools]:
        """Give all masks: layer -> (domain, output, input of a group)."""
        kept = {layer: self.kept(layer) for layer in self.manifest.convs}
        return {layer: np.stack([self._mask(domain, layer, kept[layer]) for domain in self.domains]) for layer in kept}

    def _mask(self, domain: str, layer: str, kept: Bools) -> Bools:
        mask = np.zeros_like(kept)
        mask[kept] = unpack_bits(self.packed_mask(domain, layer), int(kept.sum()))
        return from_stored(mask, self.manifest.convs[layer])


def _bytes(array: Array) -> Bytes:
    return array.astype(np.uint8, copy=False)
