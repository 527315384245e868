"""Read the arrays of a model file one by one, without a copy of the data in memory."""

from __future__ import annotations

import hashlib
from io import BufferedReader

import numpy as np

from prunus.arrays import Array, Bytes
from prunus.bundle.bits import pack_bits
from prunus.bundle.dtypes import all_finite
from prunus.bundle.header import FileHeader
from prunus.bundle.index import decode_index
from prunus.errors import BundleError


def read_arrays(file: BufferedReader, header: FileHeader, digest: hashlib._Hash) -> dict[str, Array]:
    """Read all arrays in the order of the file, and update the checksum with them."""
    arrays: dict[str, Array] = {}
    shapes = file_arrays(header)
    for part, (dtype, *_) in header.parts().items():
        for name, shape in shapes[part].items():
            stored: Array = np.empty(shape, dtype)
            if file.readinto(stored.reshape(-1).view(np.uint8).data) != stored.nbytes:
                raise ValueError("it ends before the end of its data")
            digest.update(stored.data)
            arrays[name] = stored
    return arrays


def check_arrays(header: FileHeader, arrays: dict[str, Array]) -> None:
    """Refuse invalid masks, indices and numbers; replace encoded indices by a bit per kernel."""
    for layer, entry in header.layers():
        count = header.manifest.convs[layer].num_kernels
        kept = decode_index(entry.code, arrays[f"union/{layer}"].astype(np.uint8, copy=False), count)
        if int(kept.sum()) != entry.kept:
            raise BundleError(
                f"it is damaged: layer {layer!r} keeps {entry.kept} kernels, but its index {int(kept.sum())}"
            )
        arrays[f"union/{layer}"] = pack_bits(kept)
        for domain in header.manifest.domains:
            mask: Bytes = arrays[f"mask/{domain}/{layer}"].astype(np.uint8, copy=False)
            if entry.kept % 8 and int(mask[-1]) >> entry.kept % 8:
                raise BundleError(
                    f"it is damaged: the mask of {domain!r} has bits after the last kernel of layer {layer!r}"
                )
    for name, array in arrays.items():
        if array.dtype != np.uint8 and not all_finite(array):
            raise BundleError(f"it is damaged: {name!r} contains numbers that are not finite")


def file_arrays(header: FileHeader) -> dict[str, dict[str, tuple[int, ...]]]:
    """Return the arrays of every part of a file in order: part -> name -> shape."""
    manifest = header.manifest
    layers = list(header.layers())
    domains = manifest.domains.items()
    return {
        "kernels": {f"kernels/{layer}": (entry.kept, *manifest.convs[layer].kernel) for layer, entry in layers},
        "index": {f"union/{layer}": (entry.num_bytes,) for layer, entry in layers},
        "masks": {f"mask/{domain}/{layer}": (-(-entry.kept // 8),) for domain, _ in domains for layer, entry in layers},
        "norms": {f"norm/{domain}/{name}": header.shape(name) for domain, _ in domains for name in header.norms},
        "heads": {
            f"head/{domain}/{role}": (len(entry.classes), *features)
            for domain, entry in domains
            for role, features in (("weight", (manifest.num_features,)), ("bias", ()))
        },
        "shared": {f"shared/{name}": header.shape(name) for name in header.shared},
    }
