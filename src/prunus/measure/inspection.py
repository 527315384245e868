"""The contents of a model file: kernels by layer, what domains share, and where the bytes go."""

from collections import Counter
from collections.abc import Mapping
from pathlib import Path

import numpy as np
from pydantic import JsonValue

from prunus.arrays import DType
from prunus.bundle.bundle import Bundle
from prunus.bundle.file import part_sizes, read_bundle
from prunus.measure.bundle_cost import bundle_costs
from prunus.measure.eight_bits.summary import EightBits, eight_bits_of
from prunus.measure.result import Result, Share
from prunus.measure.sharing import by_domain, count_shared, sharing_of

PARTS = {
    "kernels": "weights of the kept kernels",
    "index": "which kernels are kept",
    "masks": "which domain uses which",
    "norms": "norms and other tensors of one domain",
    "heads": "classifiers",
    "shared": "tensors that all domains share",
}
CODINGS = {"codings": "scales and zeros of 8-bit values"}
JOINED = {"wide": "kernels", "scales": "kernels", "classifiers": "heads", "zeros": "codings"}  # of an 8-bit file
REST = "graph, names, classes, provenance"


class LayerContent(Result):
    """One convolution.

    Args:
        num_kernels: before pruning; shares are relative to it.
        kept: kernels that any domain uses.
        channels: remaining output channels, and remaining input channels of a group.
        usage: share of the kernels that each domain uses.
    """

    name: str
    num_kernels: int
    kept: int
    channels: tuple[int, int]
    usage: dict[str, Share]


class Inspection(Result):
    """The contents of a model file.

    Args:
        dtype: of weights and classifiers.
        domains: name -> number of classes.
        sharing: of two domains, kernels that both use / kernels that either uses.
        bytes_by_part: adds up to the size of the file.
        source: name of the domain that the backbone was pretrained on; None if it is not one of the domains.
        eight_bits: what computes with integers; None if the file is not of 8 bits.
    """

    added = ("source", "eight_bits")

    backbone: str
    dtype: DType
    domains: dict[str, int]
    layers: tuple[LayerContent, ...]
    sharing: dict[str, dict[str, Share]]
    bytes_by_part: dict[str, int]
    provenance: dict[str, JsonValue]
    source: str | None = None
    eight_bits: EightBits | None = None


def inspect_file(path: Path) -> Inspection:
    """Read a model file and describe its contents."""
    bundle = read_bundle(path)
    costs = bundle_costs(bundle)
    convs = bundle.manifest.convs
    inspection = Inspection(
        backbone=bundle.manifest.backbone,
        dtype=bundle.dtype,
        domains={name: len(entry.classes) for name, entry in bundle.manifest.domains.items()},
        layers=tuple(
            LayerContent(
                name=layer.name,
                num_kernels=layer.num_kernels,
                kept=layer.union,
                channels=(convs[layer.name].out_channels, convs[layer.name].in_channels),
                usage=costs.layer_usage(layer),
            )
            for layer in costs.layers
        ),
        sharing=bundle_sharing(bundle),
        bytes_by_part=bytes_by_part(path),
        provenance=bundle.manifest.provenance,
        source=bundle.manifest.source,
    )
    eight_bits = eight_bits_of(bundle)
    return inspection.model_copy(update={"eight_bits": eight_bits}) if eight_bits else inspection


def bundle_sharing(bundle: Bundle) -> dict[str, dict[str, float]]:
    """Return for every pair of domains kernels both use / kernels either uses."""
    both_DD = np.zeros((len(bundle.domains), len(bundle.domains)), np.int64)
    for layer in bundle.manifest.convs:  # one after the other: thousands of layers and domains would fill the memory
        both_DD += count_shared(bundle.packed_masks(layer))
    return by_domain(bundle.domains, sharing_of(both_DD))


def bytes_by_part(path: Path) -> dict[str, int]:
    """Return how many bytes of a model file each part takes."""
    return titled_parts(part_sizes(path), path.stat().st_size)


def titled_parts(sizes: Mapping[str, int], total: int) -> dict[str, int]:
    """Return the sizes of a file's parts by their titles, with the rest of the file."""
    joined: Counter[str] = Counter()
    for part, size in sizes.items():
        joined[JOINED.get(part, part)] += size
    parts = {title: joined[part] for part, title in (PARTS | CODINGS).items() if part in joined}
    return parts | {REST: total - sum(parts.values())}
