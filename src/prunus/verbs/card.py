"""Write a model card from a model file alone."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from prunus.bundle.bundle import Bundle
from prunus.bundle.file import read_bundle
from prunus.bundle.manifest import ConvEntry
from prunus.files import write_atomically
from prunus.images import Preprocess
from prunus.report.card import Card, CardDomain, card_text
from prunus.report.recipe import shown_recipe
from prunus.report.targets import check_file

VERSIONS = ("prunus", "torch", "backbone_sha256")


def card(model: str | Path, out: str | Path | None = None) -> str:
    """Describe a model file in Markdown: what it is, its domains, costs, preparation, origin, use and limits.

    Args:
        out: a file to write the text to as well.
    """
    if out is not None:
        check_file(Path(out), "CARD.md")
    path = Path(model)
    text = card_text(_describe(read_bundle(path), path))
    if out is not None:
        write_atomically(Path(out), text.encode())
    return text


def _describe(bundle: Bundle, path: Path) -> Card:
    manifest, origin = bundle.manifest, bundle.manifest.provenance
    masks, convs = bundle.layer_masks(), manifest.convs
    total = sum(conv.dense_kernels for conv in convs.values())
    domains = []
    for place, (name, entry) in enumerate(manifest.domains.items()):
        used = {layer: int(masks[layer][place].sum()) for layer in convs}
        macs = sum(used[layer] * _macs_of_kernel(conv) for layer, conv in convs.items())
        domains.append(CardDomain(name, entry.classes, sum(used.values()) / total, macs, _prepared(entry.preprocess)))
    return Card(
        path.name,
        manifest.backbone,
        domains,
        sum(int(mask.any(0).sum()) for mask in masks.values()) / total,
        sum(conv.dense_kernels * _macs_of_kernel(conv) for conv in convs.values()),
        bundle.dtype,
        path.stat().st_size,
        manifest.dense_bytes,
        {name: str(origin[name]) for name in VERSIONS if name in origin},
        (_count(origin.get("step")), _count(origin.get("total_steps"))),
        shown_recipe(origin.get("recipe")),
    )


def _macs_of_kernel(conv: ConvEntry) -> int:
    return conv.kernel[0] * conv.kernel[1] * conv.positions


def _prepared(preprocess: Preprocess) -> str:
    fits = {"crop": "the shorter side becomes", "squash": "both sides become"}
    mean, std = (", ".join(f"{value:.4g}" for value in values) for values in (preprocess.mean, preprocess.std))
    return (
        f"{fits[preprocess.fit]} {preprocess.resize} pixels, the central {preprocess.size} x {preprocess.size} are "
        f"taken, scaled to 0..1, then minus mean ({mean}), divided by std ({std})"
    )


def _count(value: Any) -> int:  # noqa: ANN401  # provenance is whatever a file says
    return value if isinstance(value, int) else 0
