"""Train a recipe, or go on with a run."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from prunus.config import Recipe
from prunus.training.observers import Observer
from prunus.training.run import resume_run, start_run


def train(
    recipe: Recipe, out: str | Path, observers: Sequence[Observer] = (), device: str = "auto", use_cache: bool = True
) -> Path:
    """Train all domains of a recipe into a new run folder; decoded images are kept in the user's cache folder."""
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
