"""Model files in memory, made from a graph written by hand and random numbers."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from prunus.bundle.bits import pack_bits
from prunus.bundle.bundle import Array, Bundle
from prunus.bundle.manifest import ConvEntry, DomainEntry, Manifest
from prunus.bundle.order import to_stored
from prunus.graph.operations import Graph
from prunus.images import Floats, Preprocess

CLASSES = ("x", "y", "z")


def random_bundle(
    graph: Graph, image_size: int, domains: Sequence[str] = ("a", "b"), density: float = 0.5, seed: int = 0
) -> Bundle:
    """Give every layer random kernels, every domain masks of a density, and operations some of their tensors.

    A tensor is the domains' own, shared or missing, at random.
    """
    rng = np.random.default_rng(seed)
    preprocess = Preprocess(size=image_size, resize=image_size, mean=(0.5, 0.5, 0.5), std=(0.25, 0.25, 0.25))
    entry = DomainEntry(classes=CLASSES, preprocess=preprocess)
    manifest = Manifest(
        backbone="made/by_hand",
        image_size=image_size,
        graph=graph,
        domains=dict.fromkeys(domains, entry),
        dense_bytes=2**20,
        provenance={},
    )
    arrays: dict[str, Array] = {}
    for layer, conv in manifest.convs.items():
        arrays |= _layer(layer, conv, domains, density, rng)
    arrays |= _tensors(manifest, rng)
    for domain in domains:
        arrays[f"head/{domain}/weight"] = _normal(rng, (len(CLASSES), manifest.num_features))
        arrays[f"head/{domain}/bias"] = _normal(rng, (len(CLASSES),))
    return Bundle(manifest, arrays)


def _layer(
    layer: str, conv: ConvEntry, domains: Sequence[str], density: float, rng: np.random.Generator
) -> dict[str, Array]:
    masks = rng.random((len(domains), conv.out_channels, conv.in_channels)) < density
    stored = [to_stored(mask, conv) for mask in masks]
    kept = np.logical_or.reduce(stored)
    fan_in = conv.in_channels * conv.kernel[0] * conv.kernel[1]
    found: dict[str, Array] = {
        f"union/{layer}": pack_bits(kept),
        f"kernels/{layer}": _normal(rng, (int(kept.sum()), *conv.kernel)) / np.float32(np.sqrt(fan_in)),
    }
    return found | {
        f"mask/{domain}/{layer}": pack_bits(mask[kept]) for domain, mask in zip(domains, stored, strict=True)
    }


def _tensors(manifest: Manifest, rng: np.random.Generator) -> dict[str, Array]:
    found: dict[str, Array] = {}
    for number, operation in enumerate(manifest.graph):
        for role, shape in operation.tensors(manifest.shapes[operation.inputs[0]][0]).items():
            places = ([f"norm/{domain}/" for domain in manifest.domains], ["shared/"], [])[int(rng.integers(3))]
            found |= {f"{place}{number}.{role}": _normal(rng, shape) for place in places}
    return found


def _normal(rng: np.random.Generator, shape: Sequence[int]) -> Floats:
    return rng.standard_normal(shape).astype(np.float32)
