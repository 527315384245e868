"""Train a recipe, or continue a run."""

from collections.abc import Sequence
from pathlib import Path

from prunus.files import as_path
from prunus.methods.table import choose_method
from prunus.parallel.joining import is_first_process
from prunus.progress.choice import with_progress
from prunus.recipes import load_stored_recipe
from prunus.run_folder import RunFolder
from prunus.timing.dense import file_warning
from prunus.training.observers import Observer, Observers
from prunus.training.run import resume_run, start_run
from prunus.verbs.arguments import RecipeLike, as_recipe, run_folder_for


def train(
    recipe: RecipeLike,
    out: str | Path | None = None,
    observers: Sequence[Observer] | None = None,
    device: str = "auto",
    use_cache: bool = True,
    progress: bool | None = None,
) -> Path:
    """Train all domains of a recipe into a new run folder, and return the folder.

    Processes that torchrun started train together. If it restarts them after a failure, they continue the run.

    Args:
        recipe: the path of a TOML file, or a recipe.
        out: the folder (default: `runs/NAME` for the recipe file NAME.toml).
        observers: told about every step and epoch.
        device: "auto", "cpu" or "cuda".
        use_cache: keep decoded images in the user's cache folder.
        progress: show a bar in a terminal or notebook, and a line per epoch elsewhere, on standard error (default:
            unless observers are passed).
    """
    folder = run_folder_for(recipe, out)
    content = as_recipe(recipe)
    watching = with_progress(observers, progress, str(folder))
    if is_first_process() and (warning := file_warning(content)):
        Observers(watching).noted(warning)
    start_run(content, folder, watching, device, use_cache)
    return folder


def resume(
    run: str | Path,
    observers: Sequence[Observer] | None = None,
    device: str = "auto",
    recipe: RecipeLike | None = None,
    use_cache: bool = True,
    progress: bool | None = None,
) -> Path:
    """Continue an interrupted run; it ends with exactly the weights of a run without the interruption.

    Args:
        recipe: the run's recipe or its file, to be checked or extended: training.epochs may be larger.
        progress: as in `train`.
    """
    folder = as_path(run, "the folder of a run")
    wanted = None if recipe is None else as_recipe(recipe)
    resume_run(folder, with_progress(observers, progress, str(folder)), device, wanted, use_cache)
    return folder


def next_steps(run: str | Path) -> str | None:
    """Name the commands to use after training; of several processes only the first does."""
    if not is_first_process():
        return None
    packable = choose_method(load_stored_recipe(RunFolder(Path(run)).recipe)).method.packable
    return f"prunus evaluate {run}" + (f", then prunus prune {run} --out model.prunus" if packable else "")
