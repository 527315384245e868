"""Train a recipe, or continue a run."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from prunus.backbone.own.registry import GROUP, TIMM_PREFIX, own_names
from prunus.catalog import read_catalog
from prunus.extending.continuing import finishing_command
from prunus.files import as_path
from prunus.methods.table import choose_method
from prunus.parallel.joining import is_first_process
from prunus.progress.choice import with_progress
from prunus.recipes import load_stored_recipe
from prunus.run_folder import RunFolder
from prunus.timing.dense import file_warning
from prunus.training.observers import Observer, Observers
from prunus.training.run import resume_run, start_run
from prunus.verbs.arguments import Domains, Own, RecipeLike, Transform, as_recipe, run_folder_for

if TYPE_CHECKING:
    from torch import nn


def train(  # noqa: PLR0913  # what to train, how, and what comes from Python
    recipe: RecipeLike,
    out: str | Path | None = None,
    observers: Sequence[Observer] | None = None,
    device: str = "auto",
    use_cache: bool = True,
    progress: bool | None = None,
    *,
    backbone: nn.Module | None = None,
    domains: Domains | None = None,
    transform: Transform | None = None,
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
        backbone: a network without its classifier, in place of the one that the recipe names; the run keeps its
            weights.
        domains: images from Python by the name of their domain, besides those of the recipe.
        transform: augments one training image, a uint8 tensor (3, size, size), after the crop and the mirror.
    """
    folder = run_folder_for(recipe, out)
    own = Own(backbone, domains, transform)
    content = own.in_recipe(as_recipe(recipe))
    watching = with_progress(observers, progress, str(folder))
    with own.passed(content.backbone.name):
        if is_first_process():
            for note in filter(None, (file_warning(content), _unregistered(own, content.backbone.name))):
                Observers(watching).noted(note)
        start_run(content, folder, watching, device, use_cache)
    return folder


def _unregistered(own: Own, name: str) -> str | None:
    """Say what is missing before commands can open a run of a user's network."""
    known = [*own_names(), *(row.name for row in read_catalog().backbones)]
    if own.backbone is None or name in known or name.startswith(TIMM_PREFIX):
        return None
    return (
        f"to open this run in another program, pass backbone= again; commands need a package that registers {name!r} "
        f"(entry point group {GROUP})"
    )


def resume(  # noqa: PLR0913  # as train
    run: str | Path,
    observers: Sequence[Observer] | None = None,
    device: str = "auto",
    recipe: RecipeLike | None = None,
    use_cache: bool = True,
    progress: bool | None = None,
    *,
    backbone: nn.Module | None = None,
    domains: Domains | None = None,
    transform: Transform | None = None,
) -> Path:
    """Continue an interrupted run; it ends with exactly the weights of a run without the interruption.

    Args:
        recipe: the run's recipe or its file, to be checked or extended: training.epochs may be larger.
        progress: as in `train`.
        backbone: your own network, with which the run began; its weights are those that the run has kept.
        domains: the images with which the run began.
        transform: the one with which the run began.
    """
    folder = as_path(run, "the folder of a run")
    own = Own(backbone, domains, transform)
    wanted = None if recipe is None else own.in_recipe(as_recipe(recipe))
    with own.passed_to(folder):
        resume_run(folder, with_progress(observers, progress, str(folder)), device, wanted, use_cache)
    return folder


def next_steps(run: str | Path) -> str | None:
    """Name the commands to use after training; of several processes only the first does."""
    if not is_first_process():
        return None
    recipe = load_stored_recipe(RunFolder(Path(run)).recipe)
    if recipe.backbone.is_model_file:  # it learned one domain for that file
        return finishing_command(recipe, Path(run))
    packable = choose_method(recipe).method.packable and file_warning(recipe) is None
    return f"prunus evaluate {run}" + (f", then prunus prune {run} --out model.prunus" if packable else "")
