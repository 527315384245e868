"""Measure what else a user could ship for the same domains, beside one of our model files."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from prunus.alternatives.running import Comparing, plan_rows
from prunus.comparison.plan import check_data
from prunus.errors import DataError, RecipeError
from prunus.files import as_path
from prunus.measure.alternatives.results import Versus
from prunus.methods.table import choose_method, with_method
from prunus.progress.choice import watch_with_progress
from prunus.recipes import with_absolute_paths
from prunus.report.alternatives.writing import write_versus
from prunus.training.observers import Watch
from prunus.verbs.arguments import Domains, Own, RecipeLike, Transform, as_recipe

if TYPE_CHECKING:
    from torch import nn


def versus(  # noqa: PLR0913, PLR0917  # what to compare, and how to train
    recipe: RecipeLike,
    out: str | Path,
    only: str | Sequence[str] = (),
    budgets: Sequence[float] = (),
    seeds: Sequence[int] = (),
    rounds: int = 50,
    split: str = "test",
    observers: Watch | None = None,
    device: str = "auto",
    use_cache: bool = True,
    progress: bool | None = None,
    *,
    backbone: nn.Module | None = None,
    domains: Domains | None = None,
    transform: Transform | None = None,
) -> Versus:
    """Train what a user could ship instead, from packages of PyPI, and measure it beside our model file.

    All are trained with the same images, epochs and augmentation. Accuracy is that of the files that are shipped.
    Called again with the same folder, it makes only what is missing, and times everything again.

    Args:
        only: alternatives to make (default: all); ours always takes part.
        budgets: of ours, as shares of the kernels, beside the recipe's budget.
        seeds: make everything once per seed.
        rounds: how often each is timed.
        split: what is measured on; "validation" where test images have no labels.
        observers: title of a training run -> its observers.
        progress: as in `train`.
        backbone: as in `train`.
        domains: as in `train`.
        transform: as in `train`.
    """
    own = Own(backbone, domains, transform)
    folder = as_path(out, "the folder of a comparison")
    if folder.is_file():
        raise RecipeError(f"{folder} is a file; name a folder for the comparison")
    if rounds < 1:
        raise DataError(f"rounds must be at least 1, got {rounds}")
    content = with_method(with_absolute_paths(own.in_recipe(as_recipe(recipe)), Path.cwd()))
    if not choose_method(content).method.packable:
        raise RecipeError(f"method {choose_method(content).name!r} makes no model file; choose one with a budget")
    names = only.split(",") if isinstance(only, str) else only
    with own.passed(content.backbone.name):
        rows = plan_rows(content, folder, [name.strip() for name in names if name.strip()], budgets, seeds)
        check_data(content, split)
        watch = watch_with_progress(observers, progress)
        result = Comparing(watch, device, use_cache, split, rounds).run(content, rows)
    write_versus(folder, result)
    return result
