"""Write a run as one small model file."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch

from prunus.bundle.bundle import Bundle
from prunus.bundle.dtypes import DType
from prunus.bundle.file import write_bundle
from prunus.bundle.manifest import DomainEntry
from prunus.config import DEMO_PREFIX, Recipe
from prunus.errors import BundleError
from prunus.lowering.pack import pack
from prunus.training.run import TrainedRun, open_run
from prunus.version import __version__


def prune(run: str | Path, out: str | Path, dtype: DType = "float32") -> Path:
    """Drop every kernel that no domain of a run uses and write the rest to one file.

    Args:
        dtype: how weights are stored: float32, float16 or bfloat16.
    """
    if Path(out).is_dir():
        raise BundleError(f"{out} is a folder; name the file to write, such as {Path(out) / 'model.prunus'}")
    write_bundle(Path(out), pack_run(open_run(Path(run), device="cpu")), dtype)
    return Path(out)


def pack_run(run: TrainedRun) -> Bundle:
    """Pack an opened run, with its recipe and versions as provenance."""
    provenance = {
        "prunus": __version__,
        "torch": torch.__version__.split("+")[0],
        "backbone_sha256": run.checkpoint.identity.backbone,
        "step": run.checkpoint.step,
        "total_steps": run.checkpoint.total_steps,
        "recipe": _public_recipe(run.recipe),
    }
    return pack(run.net, run.backbone, domain_entries(run), provenance)


def domain_entries(run: TrainedRun) -> dict[str, DomainEntry]:
    """Describe the domains of an opened run."""
    return {
        name: DomainEntry(classes=classes, preprocess=run.preprocess[name]) for name, classes in run.net.classes.items()
    }


def _public_recipe(recipe: Recipe) -> dict[str, Any]:
    """Keep the recipe, but not where on this machine its files lie."""
    content: dict[str, Any] = recipe.model_dump(mode="json")
    for domain in content["domains"]:
        if not domain["path"].startswith(DEMO_PREFIX):
            domain["path"] = Path(domain["path"]).name
    content["root"] = content["root"] and Path(content["root"]).name
    content["backbone"]["weights"] = Path(content["backbone"]["weights"]).name
    return content
