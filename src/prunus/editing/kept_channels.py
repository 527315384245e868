"""Which channels of its original network a model file has, as its provenance records them.

A file holds the channels that some domain needs, and no runtime asks which ones they were. Kernels can only be added
from the original network if they are known. The record is one short text: the different sets of channels, a bit per
channel in base64, then the numbers of two sets for every layer, for its outputs and for the inputs of one group.
"""

import base64
from collections.abc import Mapping, Sequence

import numpy as np

from prunus.arrays import Bools, Integers
from prunus.bundle.coding.bits import pack_bits, unpack_bits
from prunus.bundle.manifest import Manifest, Provenance
from prunus.errors import BundleError
from prunus.graph.operations import Conv

KEY = "channels"

Channels = tuple[Integers, Integers]  # of a layer: output channels, and input channels of one group


def record_channels(
    provenance: Provenance, kept: Mapping[str, Channels], was: Mapping[str, tuple[int, int]]
) -> Provenance:
    """Return a provenance that names the channels of every layer, unless no layer lost any.

    Args:
        kept: in the order of the graph.
        was: number of outputs and inputs of every layer before pruning.
    """
    if all(tuple(map(len, kept[layer])) == was[layer] for layer in kept):
        return provenance
    sets: list[str] = []
    pairs = []
    for layer, channels in kept.items():
        texts = [_text(indices, count) for indices, count in zip(channels, was[layer], strict=True)]
        sets += [text for text in dict.fromkeys(texts) if text not in sets]
        pairs.append(".".join(str(sets.index(text)) for text in texts))
    return provenance | {KEY: f"{','.join(sets)};{','.join(pairs)}"}


def kept_channels(manifest: Manifest) -> dict[str, Channels]:
    """Return the output and input channels of the original network that every layer of a file has."""
    convs = {operation.layer: operation for operation in manifest.graph if isinstance(operation, Conv)}
    if all(conv.was is None for conv in convs.values()):
        return {layer: (np.arange(conv.channels[0]), np.arange(conv.channels[1])) for layer, conv in convs.items()}
    record = manifest.provenance.get(KEY)
    if not isinstance(record, str):
        raise BundleError(
            "the file does not say which channels of its backbone it has, because an earlier version wrote it; "
            "write it again with: prunus prune RUN"
        )
    try:
        sets, pairs = (text.split(",") for text in record.split(";"))
        numbers = [tuple(map(int, pair.split("."))) for pair in pairs]
        found = {
            layer: _channels([sets[number] for number in pair], conv.was or conv.channels)
            for (layer, conv), pair in zip(convs.items(), numbers, strict=True)
        }
        if any(tuple(map(len, found[layer])) != conv.channels for layer, conv in convs.items()):
            raise ValueError
    except (ValueError, IndexError):
        raise BundleError("the file's record of its channels does not fit its graph") from None
    return found


def _channels(texts: Sequence[str], was: tuple[int, int]) -> Channels:
    outputs, inputs = (_indices(text, count) for text, count in zip(texts, was, strict=True))
    return outputs, inputs


def _text(channels: Integers, count: int) -> str:
    mask: Bools = np.zeros(count, np.bool_)
    mask[channels] = True
    return base64.b64encode(pack_bits(mask).tobytes()).decode().rstrip("=")


def _indices(text: str, count: int) -> Integers:
    packed = np.frombuffer(base64.b64decode(text + "=" * (-len(text) % 4), validate=True), np.uint8)
    if packed.size != -(-count // 8):
        raise ValueError
    return np.flatnonzero(unpack_bits(packed, count))
