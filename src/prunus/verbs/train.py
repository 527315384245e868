"""Train a recipe, or continue a run."""

from collections.abc import Sequence
from pathlib import Path

from prunus.config import Recipe
from prunus.methods.table import choose_method
from prunus.parallel.joining import is_first_process
from prunus.recipes import load_stored_recipe
from prunus.run_folder import RunFolder
from prunus.timing.dense import file_warning
from prunus.training.observers import Observer, Observers
from prunus.training.run import resume_run, start_run


def train(
    recipe: Recipe, out: str | Path, observers: Sequence[Observer] = (), device: str = "auto", use_cache: bool = True
) -> Path:
    """Train all domains of a recipe into a new run folder; decoded images are kept in the user's cache folder.

    Processes that torchrun started train together. If it restarts them after a failure, they continue the run.
    """
    if is_first_process() and (warning := file_warning(recipe)):
        Observers(observers).noted(warning)
    start_run(recipe, Path(out), observers, device, use_cache)
    return Path(out)


def resume(
    run: str | Path,
    observers: Sequence[Observer] = (),
    device: str = "auto",
    recipe: Recipe | None = None,
    use_cache: bool = True,
) -> Path:
    """Continue an interrupted run; it ends with exactly the weights of a run without the interruption.

    Args:
        recipe: the run's recipe, to be checked or extended: training.epochs may be larger.
    """
    resume_run(Path(run), observers, device, recipe, use_cache)
    return Path(run)


def next_steps(run: str | Path) -> str | None:
    """Name the commands to use after training; of several processes only the first does."""
    if not is_first_process():
        return None
    packable = choose_method(load_stored_recipe(RunFolder(Path(run)).recipe)).method.packable
    return f"prunus evaluate {run}" + (f", then prunus prune {run} --out model.prunus" if packable else "")
