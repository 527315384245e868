"""Train a backbone from a folder of classes."""

from collections.abc import Sequence
from pathlib import Path

from prunus.config import Recipe
from prunus.pretraining.backbone_file import train_backbone
from prunus.pretraining.recipe import pretraining_recipe
from prunus.training.observers import Observer


def pretrain(
    images: Recipe | str | Path,
    out: str | Path,
    observers: Sequence[Observer] = (),
    device: str = "auto",
    use_cache: bool = True,
) -> Path:
    """Train a network from random weights and write a file that a recipe can name as `backbone.weights`.

    The run is kept in a folder beside the file. Called again with the same arguments, it continues where it stopped.

    Args:
        images: a folder of classes, or a recipe that `pretraining_recipe` made.
        out: the weights file, which ends in .safetensors.
    """
    recipe = images if isinstance(images, Recipe) else pretraining_recipe(images)
    train_backbone(recipe, Path(out), observers, device, use_cache)
    return Path(out)
