"""What a model file records of the run that it was made from."""

from pathlib import Path

import torch
from pydantic import JsonValue

from prunus.bundle.manifest import DomainEntry, Provenance
from prunus.checkpoints.checkpoint import Identity, Position
from prunus.config import NO_FOLDERS, Recipe
from prunus.recipes import PATHS
from prunus.version import __version__


def provenance(identity: Identity, position: Position) -> Provenance:
    """Return the recipe, the versions of packages and the steps of a run."""
    return {
        "prunus": __version__,
        "torch": torch.__version__.split("+")[0],
        "backbone_sha256": identity.backbone,
        "step": position.step,
        "total_steps": position.total_steps,
        "recipe": _content(public_recipe(identity.recipe)),
    }


def _content(recipe: Recipe) -> dict[str, JsonValue]:
    """Return all keys that are set, and those of training that are not too: the defaults may change."""
    return recipe.model_dump(mode="json", exclude_none=True) | {"training": recipe.training.model_dump(mode="json")}


def domain_entries(identity: Identity) -> dict[str, DomainEntry]:
    """Return the classes and the preprocessing of every domain."""
    return {
        name: DomainEntry(classes=classes, preprocess=identity.preprocess[name])
        for name, classes in identity.classes.items()
    }


def public_recipe(recipe: Recipe) -> Recipe:
    """Remove the folders of this machine from the paths of a recipe."""
    domains = [
        choice if choice.path.startswith(NO_FOLDERS) else choice.model_copy(update={"path": Path(choice.path).name})
        for choice in recipe.domains
    ]
    choice = recipe.backbone
    backbone = choice.model_copy(
        update={
            "name": Path(choice.name).name if choice.is_model_file else choice.name,
            "weights": Path(choice.weights).name,
            "original": choice.original and Path(choice.original).name,
        }
    )
    paths = {key: Path(path).name for key in PATHS if (path := getattr(recipe, key))}
    return recipe.model_copy(update={"domains": tuple(domains), "backbone": backbone, **paths})
