"""Train a recipe, or go on with a run."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from prunus.config import Recipe
from prunus.errors import TrainingError
from prunus.methods.table import choose_method, find_method, with_method
from prunus.recipes import load_recipe, recipe_differences
from prunus.run_folder import RunFolder
from prunus.training.checkpoint import read_checkpoint
from prunus.training.observers import Observer, Observers
from prunus.training.run import resume_run, start_run
from prunus.verbs.dense import why_not_a_file


def train(
    recipe: Recipe, out: str | Path, observers: Sequence[Observer] = (), device: str = "auto", use_cache: bool = True
) -> Path:
    """Train all domains of a recipe into a new run folder; decoded images are kept in the user's cache folder."""
    if choose_method(recipe).method.packable and (reason := why_not_a_file(recipe.backbone)):
        Observers(observers).noted(f"this network can be trained and measured, but no model file made of it: {reason}")
    start_run(recipe, Path(out), observers, device, use_cache)
    return Path(out)


def resume(
    run: str | Path,
    observers: Sequence[Observer] = (),
    device: str = "auto",
    recipe: Recipe | None = None,
    use_cache: bool = True,
) -> Path:
    """Go on with an interrupted run; it ends with the very weights it would have had without the interruption."""
    resume_run(Path(run), observers, device, recipe, use_cache)
    return Path(run)


def next_steps(run: str | Path) -> str:
    """Say what one can do with a run."""
    method = find_method(choose_method(load_recipe(RunFolder(Path(run)).recipe)).name)
    return f"prunus evaluate {run}" + (f", then prunus prune {run} --out model.prunus" if method.packable else "")


def train_or_go_on(
    recipe: Recipe, out: str | Path, observers: Sequence[Observer] = (), device: str = "auto", use_cache: bool = True
) -> Path:
    """Train a recipe in a folder: from the beginning, from where it stopped, or, where it is done, not at all."""
    folder = RunFolder(Path(out))
    if not folder.recipe.exists():
        return train(recipe, out, observers, device, use_cache)
    saved = read_checkpoint(folder.checkpoint) if folder.checkpoint.exists() else None
    changes = recipe_differences(saved.identity.recipe, with_method(recipe)) if saved else []
    if changes:
        differing = "; ".join(changes[:3])
        raise TrainingError(f"{out} holds a run of another recipe ({differing}); remove {out} or choose another --out")
    if saved and saved.step == saved.total_steps:
        return Path(out)
    return resume(out, observers, device, recipe, use_cache)
