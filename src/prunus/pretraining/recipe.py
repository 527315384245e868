"""The recipe of a backbone that is trained from random weights."""

import re
from collections.abc import Sequence
from pathlib import Path

from prunus.benchmarks import DECATHLON
from prunus.config import DEMO_PREFIX, Recipe
from prunus.methods.table import with_method
from prunus.recipes import parse_recipe, with_overrides

BATCH_SIZE = 256
LR = 0.1  # for batches of that size; larger batches take proportionally larger steps
WARMUP_EPOCHS = 5.0
WARMUP_SHARE = 0.1  # at most, of a short run
IMAGENET = "imagenet12"  # of the Visual Decathlon


def pretraining_recipe(
    folder: str | Path,
    backbone: str = "wrn28_4",
    size: int | None = None,
    epochs: int = 90,
    overrides: Sequence[str] = (),
) -> Recipe:
    """Return the recipe that trains every layer of a network on one folder of classes.

    Args:
        folder: images as `<split>/<class>/<image>`, in a folder or a zip file, or the folder of the Visual Decathlon,
            of which ImageNet is taken.
        backbone: the name of a network, as in a recipe.
        size: input pixels (default: the network's).
        overrides: changes of recipe keys, such as `training.lr=0.2`.
    """
    network: dict[str, object] = {"name": backbone, "weights": "random"} | ({"size": size} if size else {})
    training: dict[str, object] = {
        "epochs": epochs,
        "batch_size": BATCH_SIZE,
        "weight_lr": None,  # as lr
        "switch_lr": 1e-4,  # no switches are trained
        "strategy": "round_robin",
        "weight_decay": 5e-4,
        "schedule": "cosine",
        "label_smoothing": 0.1,
        "compile": True,
    }
    content = {"backbone": network, "method": "finetune", "training": training} | _images(str(folder))
    content = with_overrides(content, overrides)
    if isinstance(chosen := content["training"], dict):  # any other type is refused below
        content["training"] = _rates(chosen) | chosen
    return with_method(parse_recipe(content, Path.cwd()))


def _rates(training: dict[str, object]) -> dict[str, object]:
    """Derive the learning rate from the batch size, and the warm-up from the number of epochs."""
    batch_size, epochs = training["batch_size"], training["epochs"]
    if not isinstance(batch_size, int) or not isinstance(epochs, int):
        return {}  # refused by the validation
    return {"lr": LR * batch_size / BATCH_SIZE, "warmup_epochs": _warmup_epochs(epochs)}


def _warmup_epochs(epochs: int) -> float:
    return min(WARMUP_EPOCHS, WARMUP_SHARE * epochs)


def with_warmup_of(begun: Recipe, recipe: Recipe) -> Recipe:
    """Return a recipe with the warm-up of the run that it continues or extends, unless its own was chosen."""
    training = recipe.training
    if training.warmup_epochs != _warmup_epochs(training.num_epochs):
        return recipe
    kept = training.model_copy(update={"warmup_epochs": begun.training.warmup_epochs})
    return recipe.model_copy(update={"training": kept})


def _images(folder: str) -> dict[str, object]:
    if folder.startswith(DEMO_PREFIX):
        return {"domains": [{"path": folder, "statistics": "own"}]}
    path = Path(folder).absolute()
    if (path / "annotations").is_dir():
        return {"benchmark": DECATHLON.name, "root": str(path), "domains": [IMAGENET]}
    name = re.sub(r"[^A-Za-z0-9._-]+", "-", path.name.removesuffix(".zip")).lstrip("._-")
    return {"domains": [{"name": name or "images", "path": str(path), "statistics": "own"}]}
