"""Train a backbone from a folder of classes."""

from collections.abc import Sequence
from pathlib import Path

from prunus.config import Recipe
from prunus.files import as_path
from prunus.pretraining.backbone_file import train_backbone
from prunus.pretraining.recipe import pretraining_recipe
from prunus.progress.choice import with_progress
from prunus.training.observers import Observer


def pretrain(
    images: Recipe | str | Path,
    out: str | Path,
    observers: Sequence[Observer] | None = None,
    device: str = "auto",
    use_cache: bool = True,
    progress: bool | None = None,
) -> Path:
    """Train a network from random weights and write a file that a recipe can name as `backbone.weights`.

    The run is kept in a folder beside the file. Called again with the same arguments, it continues where it stopped.

    Args:
        images: a folder of classes, or a recipe that `pretraining_recipe` made.
        out: the weights file, which ends in .safetensors.
        progress: as in `train`.
    """
    file = as_path(out, "the weights file")
    recipe = images if isinstance(images, Recipe) else pretraining_recipe(as_path(images, "a folder of classes"))
    train_backbone(recipe, file, with_progress(observers, progress, str(file)), device, use_cache)
    return file
