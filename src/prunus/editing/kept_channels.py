"""Which channels of its original network a model file has, as its provenance records them.

A file holds the channels that some domain needs, and no runtime asks which ones they were. Kernels can only be added
from the original network if they are known.
"""

from collections.abc import Mapping

import numpy as np

from prunus.arrays import Bools, Integers
from prunus.bundle.bits import pack_bits, unpack_bits
from prunus.bundle.manifest import Manifest, Provenance
from prunus.errors import BundleError

KEY = "channels"

Channels = tuple[Integers, Integers]  # of a layer: output channels, and input channels of one group


def record_channels(
    provenance: Provenance, kept: Mapping[str, Channels], was: Mapping[str, tuple[int, int]]
) -> Provenance:
    """Return a provenance that names the channels of every layer that lost some."""
    recorded = {
        layer: [_hex(channels, count) for channels, count in zip(kept[layer], was[layer], strict=True)]
        for layer in kept
        if tuple(map(len, kept[layer])) != was[layer]
    }
    return provenance | ({KEY: recorded} if recorded else {})


def kept_channels(manifest: Manifest) -> dict[str, Channels]:
    """Return the output and input channels of the original network that every layer of a file has."""
    recorded = manifest.provenance.get(KEY, {})
    found: dict[str, Channels] = {}
    for operation in manifest.graph:
        layer, channels = getattr(operation, "layer", None), getattr(operation, "channels", None)
        if layer is None or channels is None:
            continue
        was = getattr(operation, "was", None) or channels
        if was == channels:
            found[layer] = np.arange(was[0]), np.arange(was[1])
            continue
        outputs, inputs = (_indices(text, count) for text, count in zip(_pair(recorded, layer), was, strict=True))
        if (len(outputs), len(inputs)) != channels:
            raise BundleError(f"the file's record of the channels of layer {layer!r} does not fit its graph")
        found[layer] = outputs, inputs
    return found


def _pair(recorded: object, layer: str) -> tuple[str, str]:
    pair = recorded.get(layer) if isinstance(recorded, dict) else None
    if not isinstance(pair, list) or len(pair) != 2 or not all(isinstance(text, str) for text in pair):
        raise BundleError(
            "the file does not say which channels of its backbone it has, because an earlier version wrote it; "
            "write it again with: prunus prune RUN"
        )
    return pair[0], pair[1]


def _hex(channels: Integers, count: int) -> str:
    mask: Bools = np.zeros(count, np.bool_)
    mask[channels] = True
    return pack_bits(mask).tobytes().hex()


def _indices(text: str, count: int) -> Integers:
    try:
        packed = np.frombuffer(bytes.fromhex(text), np.uint8)
    except ValueError:
        packed = np.zeros(0, np.uint8)
    if packed.size != -(-count // 8):
        raise BundleError("the file's record of its channels is damaged")
    return np.flatnonzero(unpack_bits(packed, count))
