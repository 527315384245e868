"""A run folder: a recipe, a checkpoint and logs; how one is begun, resumed and opened again."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from prunus.backbone.device import choose_device
from prunus.backbone.weights import fingerprint
from prunus.backbone.zoo import Backbone, load_backbone
from prunus.config import Recipe
from prunus.errors import RecipeError, TrainingError
from prunus.images import Preprocess
from prunus.losses.sharing import find_sharing_loss
from prunus.masks.network import MultiDomainNet
from prunus.methods.table import adapt, choose_method, with_method
from prunus.recipes import load_recipe, parse_recipe, recipe_differences, with_absolute_paths
from prunus.training.checkpoint import Checkpoint, read_checkpoint
from prunus.training.folder import RunFolder
from prunus.training.learner import Learner
from prunus.training.observers import Observer, Observers
from prunus.training.setup import RecipeTraining, check_same


@dataclass(frozen=True)
class TrainedRun:
    """A run opened for measuring or pruning."""

    recipe: Recipe
    backbone: Backbone
    net: MultiDomainNet
    preprocess: dict[str, Preprocess]
    checkpoint: Checkpoint


def check_recipe(recipe: Recipe) -> None:
    """Refuse, before any work, names that are in no table and settings that contradict each other."""
    chosen = choose_method(recipe)
    if chosen.sharing:
        find_sharing_loss(chosen.sharing)
    alone = recipe.training.strategy == "individual" or chosen.method.individual
    if alone and (chosen.method.together or chosen.sharing):
        what = f"the sharing loss {chosen.sharing!r}" if chosen.sharing else f"method {chosen.name!r}"
        raise RecipeError(
            f"strategy 'individual' trains each domain alone, but with {what} domains learn together; "
            'use another strategy, or method = "ba2" without a sharing loss'
        )


def start_run(
    recipe: Recipe, path: Path, observers: Sequence[Observer] = (), device: str = "auto", use_cache: bool = True
) -> None:
    """Train a recipe from the beginning in a new folder."""
    folder = RunFolder(path)
    if folder.recipe.exists():
        raise TrainingError(
            f"{path} already holds a run; go on with: prunus train --resume {path}, or choose another --out"
        )
    check_recipe(recipe)
    recipe = with_absolute_paths(with_method(recipe), Path.cwd())
    RecipeTraining(recipe, folder, Observers(observers), use_cache).run(device, None)


def resume_run(
    path: Path,
    observers: Sequence[Observer] = (),
    device: str = "auto",
    recipe: Recipe | None = None,
    use_cache: bool = True,
) -> None:
    """Go on with a run as if nothing had happened; a recipe, if given, must be the run's own."""
    folder = RunFolder(path)
    if not folder.recipe.exists():
        raise TrainingError(f"{path} holds no run to resume; begin one with: prunus train recipe.toml --out {path}")
    own = load_recipe(folder.recipe)
    if recipe is not None and (changes := recipe_differences(own, with_method(recipe))):
        raise TrainingError(
            f"{path} was made with another recipe ({'; '.join(changes[:3])}); resume it without one, or use a new --out"
        )
    start = _own_checkpoint(folder, own) if folder.checkpoint.exists() else None
    RecipeTraining(own, folder, Observers(observers), use_cache).run(device, start)


def open_run(path: Path, device: str = "auto") -> TrainedRun:
    """Open what a run has learned so far; its images are not needed."""
    folder = RunFolder(path)
    if not folder.recipe.exists():
        raise TrainingError(
            f"{path} is neither a run folder nor a model file; make one with: prunus train recipe.toml --out {path}"
        )
    recipe = load_recipe(folder.recipe)
    checkpoint = _own_checkpoint(folder, recipe)
    backbone = load_backbone(recipe.backbone)
    check_same("backbone", checkpoint.identity.backbone, fingerprint(backbone.network))
    chosen = choose_method(recipe)
    net = adapt(backbone, checkpoint.identity.classes, chosen.name, recipe.seed, chosen.options)
    learner = Learner(net.to(choose_device(device)), recipe)
    learner.restore(checkpoint.tensors)
    preprocess = {name: Preprocess(**fields) for name, fields in checkpoint.identity.preprocess.items()}
    return TrainedRun(recipe, backbone, net.eval(), preprocess, checkpoint)


def _own_checkpoint(folder: RunFolder, recipe: Recipe) -> Checkpoint:
    checkpoint = read_checkpoint(folder.checkpoint)
    if changes := recipe_differences(recipe, parse_recipe(checkpoint.identity.recipe)):
        raise TrainingError(f"{folder.checkpoint} is of another recipe than {folder.recipe} ({'; '.join(changes[:3])})")
    return checkpoint
