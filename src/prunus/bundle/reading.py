"""Read the arrays of a model file one by one, without a copy of the data in memory."""

from __future__ import annotations

import hashlib
from io import BufferedReader

import numpy as np

from prunus.arrays import Array, Bytes
from prunus.bundle.coding.bits import pack_bits
from prunus.bundle.coding.index import decode_index
from prunus.bundle.coding.joint_masks import decode_masks
from prunus.bundle.dtypes import all_finite
from prunus.bundle.eight_bits.checks import check_codes
from prunus.bundle.header import FileHeader
from prunus.errors import BundleError

JOINT_MASKS = "masks"  # the array of masks that are coded together
Shapes = dict[str, dict[str, tuple[int, ...]]]  # part of a file -> name of an array -> its shape


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
    """Refuse invalid masks, indices and numbers; replace encoded ones by bits."""
    if header.mask_bytes is not None:
        coded: Bytes = arrays.pop(JOINT_MASKS).astype(np.uint8, copy=False)
        masks = decode_masks(coded, len(header.manifest.domains), [entry.kept for entry in header.index])
        for layer, mask_DK in zip(header.manifest.convs, masks, strict=True):
            for domain, mask_K in zip(header.manifest.domains, mask_DK, strict=True):
                arrays[f"mask/{domain}/{layer}"] = pack_bits(mask_K)
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
        if array.dtype not in (np.uint8, np.int8) and not all_finite(array):
            raise BundleError(f"it is damaged: {name!r} contains numbers that are not finite")
    if header.dtype == "int8":
        check_codes(header.manifest, arrays)


def file_arrays(header: FileHeader) -> Shapes:
    """Return the arrays of every part of a file in order: part -> name -> shape."""
    manifest = header.manifest
    layers = list(header.layers())
    domains = manifest.domains.items()
    arrays: Shapes = {
        "kernels": {f"kernels/{layer}": (entry.kept, *conv.kernel) for layer, conv, entry in header.narrow()},
        "index": {f"union/{layer}": (entry.num_bytes,) for layer, entry in layers},
        "masks": {f"mask/{domain}/{layer}": (-(-entry.kept // 8),) for domain, _ in domains for layer, entry in layers}
        if header.mask_bytes is None
        else {JOINT_MASKS: (header.mask_bytes,)},
        "norms": {f"norm/{domain}/{name}": header.shape(name) for domain, _ in domains for name in header.norms},
        "heads": {
            f"head/{domain}/{role}": (len(entry.classes), *features)
            for domain, entry in domains
            for role, features in (("weight", (manifest.num_features,)), ("bias", ()))
        },
        "shared": {f"shared/{name}": header.shape(name) for name in header.shared},
    }
    return arrays | _eight_bit_arrays(header) if header.dtype == "int8" else arrays


def _eight_bit_arrays(header: FileHeader) -> Shapes:
    manifest = header.manifest
    classes = {domain: len(entry.classes) for domain, entry in manifest.domains.items()}
    kept = dict(header.layers())
    codings = (len(manifest.coded),)
    return {
        "heads": {f"head/{domain}/weight": (count, manifest.num_features) for domain, count in classes.items()},
        "wide": {f"kernels/{layer}": (kept[layer].kept, *manifest.convs[layer].kernel) for layer in manifest.wide},
        "scales": {f"scale/{layer}": (conv.out_channels,) for layer, conv, _ in header.narrow()},
        "classifiers": {
            f"head/{domain}/{role}": (count,) for domain, count in classes.items() for role in ("scale", "bias")
        },
        "codings": {f"coding/{domain}/scale": codings for domain in classes},
        "zeros": {f"coding/{domain}/zero": codings for domain in classes},
    }
