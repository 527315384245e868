"""Pack a training run into a model file."""

from pathlib import Path

import torch

from prunus.bundle.bundle import Bundle
from prunus.bundle.manifest import DomainEntry
from prunus.config import DEMO_PREFIX, Recipe
from prunus.lowering.pack import pack
from prunus.recipes import PATHS
from prunus.training.run import TrainedRun
from prunus.version import __version__


def pack_run(run: TrainedRun) -> Bundle:
    """Pack an opened run, with its recipe and versions as provenance."""
    provenance = {
        "prunus": __version__,
        "torch": torch.__version__.split("+")[0],
        "backbone_sha256": run.checkpoint.identity.backbone,
        "step": run.checkpoint.position.step,
        "total_steps": run.checkpoint.position.total_steps,
        "recipe": public_recipe(run.recipe).model_dump(mode="json", exclude_defaults=True),
    }
    return pack(run.net, run.backbone, domain_entries(run), provenance)


def domain_entries(run: TrainedRun) -> dict[str, DomainEntry]:
    """Describe the domains of an opened run."""
    return {
        name: DomainEntry(classes=classes, preprocess=run.preprocess[name]) for name, classes in run.net.classes.items()
    }


def public_recipe(recipe: Recipe) -> Recipe:
    """Remove the folders of this machine from the paths of a recipe."""
    domains = [
        choice if choice.path.startswith(DEMO_PREFIX) else choice.model_copy(update={"path": Path(choice.path).name})
        for choice in recipe.domains
    ]
    backbone = recipe.backbone.model_copy(update={"weights": Path(recipe.backbone.weights).name})
    paths = {key: Path(path).name for key in PATHS if (path := getattr(recipe, key))}
    return recipe.model_copy(update={"domains": tuple(domains), "backbone": backbone, **paths})
