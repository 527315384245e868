"""What a program needs to know about exported models: domains, classes and how to prepare images."""

import json
from collections.abc import Sequence
from pathlib import Path

from pydantic import BaseModel, ConfigDict, JsonValue

from prunus.bundle.bundle import Bundle
from prunus.version import __version__

INPUT = "images: float32 (batch, 3, size, size), RGB"
RESIZE = {
    "crop": "cut out the largest centred square and resize it to `resize` pixels (bilinear, antialiased)",
    "squash": "resize to `resize` x `resize` pixels (bilinear, antialiased)",
}


class DomainLabels(BaseModel):
    """One domain: its model, its classes in the order of the logits, and how its images are prepared."""

    model_config = ConfigDict(frozen=True)

    file: str
    number: int | None  # the input `domain` of a model for all domains
    classes: tuple[str, ...]
    preprocess: dict[str, JsonValue]


class Labels(BaseModel):
    """The content of `labels.json`."""

    model_config = ConfigDict(frozen=True)

    made_with: str
    backbone: str
    input: str
    domains: dict[str, DomainLabels]


def describe_models(bundle: Bundle, files: dict[str, Path], is_single: bool) -> Labels:
    """Describe exported models, given the file of each domain."""
    domains = {
        name: DomainLabels(
            file=files[name].name,
            number=number if is_single else None,
            classes=tuple(entry.classes),
            preprocess=_preprocess(bundle, name),
        )
        for number, (name, entry) in enumerate(bundle.manifest.domains.items())
    }
    return Labels(made_with=f"prunus {__version__}", backbone=bundle.manifest.backbone, input=INPUT, domains=domains)


def _preprocess(bundle: Bundle, domain: str) -> dict[str, JsonValue]:
    """Return the steps from an image to the input, with their numbers."""
    preprocess = bundle.manifest.domains[domain].preprocess
    steps = [
        RESIZE[preprocess.fit],
        "cut out the central `size` x `size` pixels",
        "divide by 255, subtract `mean` and divide by `std`, for red, green and blue",
    ]
    return {**preprocess.model_dump(mode="json"), "steps": steps}


def as_metadata(bundle: Bundle, domains: Sequence[str]) -> dict[str, str]:
    """Return the metadata of a model for some domains; values that are not text are JSON, as ONNX wants."""
    described = {name: bundle.manifest.domains[name] for name in domains}
    return {
        "backbone": bundle.manifest.backbone,
        "input": INPUT,
        "domains": json.dumps(list(described), ensure_ascii=False),
        "classes": json.dumps({name: entry.classes for name, entry in described.items()}, ensure_ascii=False),
        "preprocess": json.dumps({name: _preprocess(bundle, name) for name in described}),
    }
