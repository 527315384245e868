"""Train a recipe in a folder that may hold an earlier attempt."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from prunus.config import Recipe
from prunus.errors import TrainingError
from prunus.methods.table import with_method
from prunus.recipes import recipe_differences
from prunus.run_folder import RunFolder
from prunus.training.checkpoint import read_checkpoint
from prunus.training.observers import Observer
from prunus.training.run import resume_run, start_run


def train_or_continue(
    recipe: Recipe, path: Path, observers: Sequence[Observer] = (), device: str = "auto", use_cache: bool = True
) -> None:
    """Train a recipe from the beginning, continue where it stopped, or do nothing if it is finished."""
    folder = RunFolder(path)
    if not folder.recipe.exists():
        start_run(recipe, path, observers, device, use_cache)
        return
    saved = read_checkpoint(folder.checkpoint) if folder.checkpoint.exists() else None
    changes = recipe_differences(saved.identity.recipe, with_method(recipe)) if saved else []
    if changes:
        raise TrainingError(
            f"{path} holds a run of another recipe ({'; '.join(changes[:3])}); remove {path} or choose another --out"
        )
    if saved is None or saved.step < saved.total_steps:
        resume_run(path, observers, device, recipe, use_cache)
