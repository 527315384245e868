"""Look into a model file: what each layer keeps, what each domain uses, what domains share, where the bytes go."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from prunus.bundle.dtypes import DType
from prunus.bundle.file import part_sizes, read_bundle
from prunus.measure.sharing import BITS, count_shared, sharing_of


@dataclass(frozen=True)
class LayerContent:
    """One convolution: how many of its kernels are kept, and which share each domain uses.

    Args:
        num_kernels: before pruning; shares are of these.
        channels: output channels, and input channels of a group, that are left.
    """

    name: str
    num_kernels: int
    kept: int
    channels: tuple[int, int]
    usage: dict[str, float]


@dataclass(frozen=True)
class Inspection:
    """What is in a model file.

    Args:
        dtype: of weights and classifiers.
        domains: how many classes each has.
        sharing: of two domains, kernels that both use / kernels that either uses.
        bytes_by_part: where the file's bytes go; their sum is its size.
    """

    backbone: str
    dtype: DType
    domains: dict[str, int]
    layers: tuple[LayerContent, ...]
    sharing: dict[str, dict[str, float]]
    bytes_by_part: dict[str, int]
    provenance: dict[str, object]


def inspect(model: str | Path) -> Inspection:
    """Read a model file and describe its content."""
    bundle = read_bundle(Path(model))
    both_DD = np.zeros((len(bundle.domains), len(bundle.domains)), dtype=np.int64)
    layers = []
    for name, conv in bundle.manifest.convs.items():
        packed_DB = bundle.packed_masks(name)
        shared_DD = count_shared(packed_DB)
        both_DD += shared_DD
        usage = {
            domain: int(used) / conv.dense_kernels
            for domain, used in zip(bundle.domains, shared_DD.diagonal(), strict=True)
        }
        kept = int(BITS[np.bitwise_or.reduce(packed_DB, axis=0)].sum(dtype=np.int64))
        layers.append(LayerContent(name, conv.dense_kernels, kept, (conv.out_channels, conv.in_channels), usage))
    sharing = sharing_of(both_DD).tolist()
    return Inspection(
        bundle.manifest.backbone,
        bundle.dtype,
        {name: len(entry.classes) for name, entry in bundle.manifest.domains.items()},
        tuple(layers),
        {
            domain: dict(zip(bundle.domains, row, strict=True))
            for domain, row in zip(bundle.domains, sharing, strict=True)
        },
        _bytes_by_part(Path(model)),
        bundle.manifest.provenance,
    )


PARTS = {
    "kernels": "weights of the kept kernels",
    "index": "which kernels are kept",
    "masks": "which domain uses which",
    "norms": "norms and other tensors of one domain",
    "heads": "classifiers",
    "shared": "tensors that all domains share",
}


def _bytes_by_part(path: Path) -> dict[str, int]:
    sizes = part_sizes(path)
    found = {title: sizes[part] for part, title in PARTS.items()}
    return found | {"graph, names, classes, provenance": path.stat().st_size - sum(found.values())}
