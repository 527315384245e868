"""A pruned multi-domain model as arrays: the kernels that any domain uses, and a mask for each domain.

Names of the arrays, where n is the number of an operation and a layer keeps K kernels:

    union/<layer>              a bit per kernel of the layer: whether it is kept
    kernels/<layer>            (K, height, width): the kept kernels, in the order of those bits
    mask/<domain>/<layer>      K bits: whether the domain uses the kernel
    norm/<domain>/<n>.<role>   a tensor of an operation that differs between domains: its scale, bias or ones
    shared/<n>.<role>          a tensor of an operation that is the same in all domains
    head/<domain>/weight|bias  the domain's classifier

Kernels and heads have the type of the file; `widened` converts them to float32. `kernel_order` describes the order of
the kernels. An 8-bit file stores codes, and the kernels of its `wide` layers as float16. It also has, for the values
that its integer operations read or make:

    scale/<layer>              (O,): what the codes of an output channel's kernels are multiplied by
    head/<domain>/scale        the same for the classes of a classifier; its bias is float32
    coding/<domain>/scale|zero the coding of every coded value, in the order of the values

Legend: D = domains, O = output channels, I = input channels of one group.
"""

from dataclasses import dataclass

import numpy as np

from prunus.arrays import Array, Bools, Bytes, DType, Floats, Integers
from prunus.bundle.coding.bits import unpack_bits
from prunus.bundle.dtypes import STORED, widened
from prunus.bundle.kernel_order import from_stored, output_numbers, to_stored
from prunus.bundle.manifest import Manifest
from prunus.errors import UnknownNameError


@dataclass(frozen=True)
class Bundle:
    """A model file in memory."""

    manifest: Manifest
    arrays: dict[str, Array]

    @property
    def domains(self) -> tuple[str, ...]:
        """Return the names of the domains, in order."""
        return tuple(self.manifest.domains)

    @property
    def dtype(self) -> DType:
        """Return the type of kernels and heads."""
        stored = self.arrays[f"head/{self.domains[0]}/weight"].dtype
        return next((name for name, dtype in STORED.items() if dtype == stored), "float32")

    def check_domain(self, domain: str) -> None:
        """Raise an error if the model does not serve a domain."""
        if domain not in self.manifest.domains:
            raise UnknownNameError("domain", domain, self.domains)

    def stored(self, layer: str) -> tuple[Bytes, Array]:
        """Return a bit per kernel of a layer, eight to a byte, and the kept kernels (K, height, width), as stored."""
        return _bytes(self.arrays[f"union/{layer}"]), self.arrays[f"kernels/{layer}"]

    def kernels(self, layer: str) -> Floats:
        """Return the kept kernels of a layer as numbers: (K, height, width)."""
        stored = self.arrays[f"kernels/{layer}"]
        if stored.dtype != np.int8:
            return widened(stored)
        scale = self.arrays[f"scale/{layer}"].astype(np.float32, copy=False)
        return stored.astype(np.float32) * scale[self.kept_outputs(layer), None, None]

    def kept_outputs(self, layer: str) -> Integers:
        """Return the output channel of every kept kernel of a layer: (K,)."""
        return output_numbers(self.manifest.convs[layer])[self.kept(layer)]

    def packed_mask(self, domain: str, layer: str) -> Bytes:
        """Return a bit per kept kernel of a layer, eight to a byte: whether a domain uses it."""
        return _bytes(self.arrays[f"mask/{domain}/{layer}"])

    def packed_masks(self, layer: str) -> Bytes:
        """Return the packed masks of all domains: (D, K / 8, rounded up)."""
        return np.stack([self.packed_mask(domain, layer) for domain in self.domains])

    def kept_masks(self) -> list[Bools]:
        """Return which domain uses which kept kernel, for every layer: (D, K)."""
        counts = {layer: int(self.kept(layer).sum()) for layer in self.manifest.convs}
        return [
            np.stack([unpack_bits(packed, count) for packed in self.packed_masks(layer)])
            for layer, count in counts.items()
        ]

    def kept(self, layer: str) -> Bools:
        """Return which kernels of a layer are kept, in the order of the file: (O * I,)."""
        return unpack_bits(self.stored(layer)[0], self.manifest.convs[layer].num_kernels)

    def union(self, layer: str) -> Bools:
        """Return which kernels of a layer are kept: (O, I)."""
        return from_stored(self.kept(layer), self.manifest.convs[layer])

    def mask(self, domain: str, layer: str) -> Bools:
        """Return which kernels of a layer a domain uses: (O, I)."""
        return self._mask(domain, layer, self.kept(layer))

    def weight(self, layer: str, mask_OI: Bools) -> Floats:
        """Return a layer's dense weight, (O, I, height, width), with zeros for kernels outside a mask."""
        return self._dense(layer, self.kernels(layer), mask_OI)

    def weight_codes(self, layer: str, mask_OI: Bools) -> Floats:
        """Return the codes of a layer's dense weight in an 8-bit file, as floats."""
        return self._dense(layer, widened(self.arrays[f"kernels/{layer}"]), mask_OI)

    def _dense(self, layer: str, kernels: Floats, mask_OI: Bools) -> Floats:
        conv = self.manifest.convs[layer]
        weight = np.zeros((conv.num_kernels, *conv.kernel), dtype=np.float32)
        weight[self.kept(layer)] = kernels
        weight[~to_stored(mask_OI, conv)] = 0
        return from_stored(weight, conv)

    def head(self, domain: str) -> tuple[Floats, Floats]:
        """Return the weight and the bias of a domain's classifier."""
        weight, bias = (widened(self.arrays[f"head/{domain}/{key}"]) for key in ("weight", "bias"))
        scale = self.arrays.get(f"head/{domain}/scale")
        return weight if scale is None else weight * widened(scale)[:, None], bias

    def tensor(self, domain: str, operation: int, role: str) -> Floats | None:
        """Return a tensor of an operation; None if it has none of that role."""
        key = f"{operation}.{role}"
        array = self.arrays.get(f"norm/{domain}/{key}", self.arrays.get(f"shared/{key}"))
        return None if array is None else array.astype(np.float32, copy=False)

    def layer_masks(self) -> dict[str, Bools]:
        """Return all masks: layer -> (D, O, I)."""
        kept = {layer: self.kept(layer) for layer in self.manifest.convs}
        return {layer: np.stack([self._mask(domain, layer, kept[layer]) for domain in self.domains]) for layer in kept}

    def _mask(self, domain: str, layer: str, kept: Bools) -> Bools:
        mask = np.zeros_like(kept)
        mask[kept] = unpack_bits(self.packed_mask(domain, layer), int(kept.sum()))
        return from_stored(mask, self.manifest.convs[layer])


def _bytes(array: Array) -> Bytes:
    return array.astype(np.uint8, copy=False)
