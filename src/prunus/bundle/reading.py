"""Read a model file piece by piece, each straight into its own array, so that nothing is held twice."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from io import BufferedReader

import numpy as np

from prunus.arrays import Array, Bytes
from prunus.bundle.bits import pack_bits
from prunus.bundle.dtypes import CODES, STORED, all_finite
from prunus.bundle.header import FileHeader
from prunus.bundle.index import decode_index
from prunus.errors import BundleError

Piece = tuple[str, tuple[int, ...]]  # the name of an array and its shape


def read_arrays(file: BufferedReader, header: FileHeader, digest: hashlib._Hash) -> dict[str, Array]:
    """Read all arrays in the order in which they lie, and let the checksum see every byte."""
    found: dict[str, Array] = {}
    kinds: dict[str, np.dtype[np.generic]] = {"F32": np.dtype(np.float32), "U8": np.dtype(np.uint8)}
    kinds[CODES[header.dtype]] = STORED[header.dtype]
    for part, where in header.parts().items():
        for name, shape in PIECES[part](header):
            stored: Array = np.empty(shape, kinds[where.code])
            if file.readinto(stored.reshape(-1).view(np.uint8).data) != stored.nbytes:
                raise ValueError("it ends too early")
            digest.update(stored.data)
            found[name] = stored
    return found


def check_arrays(header: FileHeader, arrays: dict[str, Array]) -> None:
    """Refuse masks, indices and numbers that cannot be; indices are put in the place of their codes."""
    for layer, entry in header.layers():
        count = header.manifest.convs[layer].num_kernels
        kept = decode_index(entry.code, arrays[f"union/{layer}"].astype(np.uint8, copy=False), count)
        if int(kept.sum()) != entry.kept:
            raise BundleError(f"layer {layer!r} should keep {entry.kept} kernels, its index keeps {int(kept.sum())}")
        arrays[f"union/{layer}"] = pack_bits(kept)
        for domain in header.manifest.domains:
            mask: Bytes = arrays[f"mask/{domain}/{layer}"].astype(np.uint8, copy=False)
            if entry.kept % 8 and int(mask[-1]) >> entry.kept % 8:
                raise BundleError(f"the mask of {domain!r} has bits behind the last kernel of layer {layer!r}")
    for name, array in arrays.items():
        if array.dtype != np.uint8 and not all_finite(array):
            raise BundleError(f"{name!r} holds numbers that are not finite")


def _kernels(header: FileHeader) -> Iterator[Piece]:
    for layer, entry in header.layers():
        yield f"kernels/{layer}", (entry.kept, *header.manifest.convs[layer].kernel)


def _index(header: FileHeader) -> Iterator[Piece]:
    for layer, entry in header.layers():
        yield f"union/{layer}", (entry.num_bytes,)


def _masks(header: FileHeader) -> Iterator[Piece]:
    for domain in header.manifest.domains:
        for layer, entry in header.layers():
            yield f"mask/{domain}/{layer}", (-(-entry.kept // 8),)


def _norms(header: FileHeader) -> Iterator[Piece]:
    for domain in header.manifest.domains:
        for name in header.norms:
            yield f"norm/{domain}/{name}", header.shape(name)


def _heads(header: FileHeader) -> Iterator[Piece]:
    for domain, entry in header.manifest.domains.items():
        yield f"head/{domain}/weight", (len(entry.classes), header.manifest.num_features)
        yield f"head/{domain}/bias", (len(entry.classes),)


def _shared(header: FileHeader) -> Iterator[Piece]:
    for name in header.shared:
        yield f"shared/{name}", header.shape(name)


# part of the file -> the arrays that lie in it, one after the other
PIECES = {"kernels": _kernels, "index": _index, "masks": _masks, "norms": _norms, "heads": _heads, "shared": _shared}
