"""The contents of a model file: kernels by layer, what domains share, and where the bytes go."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from pydantic import JsonValue

from prunus.bundle.dtypes import DType
from prunus.bundle.file import part_sizes, read_bundle
from prunus.measure.bundle_cost import bundle_costs
from prunus.measure.result import Result, Share
from prunus.measure.sharing import count_shared, sharing_of

PARTS = {
    "kernels": "weights of the kept kernels",
    "index": "which kernels are kept",
    "masks": "which domain uses which",
    "norms": "norms and other tensors of one domain",
    "heads": "classifiers",
    "shared": "tensors that all domains share",
}
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
    """

    backbone: str
    dtype: DType
    domains: dict[str, int]
    layers: tuple[LayerContent, ...]
    sharing: dict[str, dict[str, Share]]
    bytes_by_part: dict[str, int]
    provenance: dict[str, JsonValue]


def inspect_file(path: Path) -> Inspection:
    """Read a model file and describe its contents."""
    bundle = read_bundle(path)
    costs = bundle_costs(bundle)
    convs = bundle.manifest.convs
    both_DD = np.sum([count_shared(bundle.packed_masks(layer)) for layer in convs], axis=0)
    rows = [dict(zip(bundle.domains, row, strict=True)) for row in sharing_of(both_DD).tolist()]
    sizes = part_sizes(path)
    parts = {title: sizes[part] for part, title in PARTS.items()}
    return Inspection(
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
        sharing=dict(zip(bundle.domains, rows, strict=True)),
        bytes_by_part=parts | {REST: path.stat().st_size - sum(parts.values())},
        provenance=bundle.manifest.provenance,
    )
