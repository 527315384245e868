"""Train methods side by side on one recipe and put them into one table."""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from prunus.comparison.execution import Outcome, Trials
from prunus.comparison.executors import local_executor
from prunus.comparison.plan import ALL, REQUIRED, check_data, plan_comparison
from prunus.comparison.table import is_complete, tabulate, write_table
from prunus.errors import RecipeError
from prunus.files import as_path
from prunus.measure.comparison import Comparison
from prunus.progress.choice import trials_with_progress, watch_with_progress
from prunus.recipes import with_absolute_paths
from prunus.training.observers import Watch
from prunus.verbs.arguments import Domains, Own, RecipeLike, Transform, as_recipe

if TYPE_CHECKING:
    from torch import nn

BUDGETS = (1.0, 0.75, 0.5, 0.25)


def compare(  # noqa: PLR0913, PLR0917  # what to compare, and how to train
    recipe: RecipeLike,
    out: str | Path,
    methods: str | Sequence[str] = ALL,
    budgets: Sequence[float] = BUDGETS,
    observers: Watch | None = None,
    device: str = "auto",
    use_cache: bool = True,
    split: str = "test",
    seeds: Sequence[int] = (),
    jobs: int = 1,
    progress: bool | None = None,
    seconds: float = math.inf,
    *,
    backbone: nn.Module | None = None,
    domains: Domains | None = None,
    transform: Transform | None = None,
) -> Comparison:
    """Train every method, once per budget if it has one, and measure all of them in the same way.

    The feature extractor and fine-tuning always take part, because the scores compare with them. Called again with
    the same folder, it continues where it stopped. Methods that cannot be trained are listed under `failed`.

    Args:
        methods: names, also with options such as `taps:sparsity=0.5` or `ba2:sharing=soft_overlap`; `all` is every one.
        observers: title of a training run -> its observers.
        split: what is measured on; "validation" where test images have no labels.
        seeds: train everything once per seed; the numbers of a row are means, and its `spread` standard deviations.
        jobs: training runs at a time; more than one run in processes of their own.
        progress: as in `train`.
        seconds: after so many no training run begins; if some are left, TrainingInterrupted is raised.
        backbone: as in `train`; with one job only, as domains and a transform.
        domains: as in `train`.
        transform: as in `train`.
    """
    until = time.monotonic() + seconds
    own = Own(backbone, domains, transform)
    folder = as_path(out, "the folder of a comparison")
    if folder.is_file():
        raise RecipeError(f"{folder} is a file; name a folder for the comparison")
    if jobs < 1:
        raise RecipeError(f"jobs must be at least 1, got {jobs}")
    if own != Own() and jobs > 1:
        raise RecipeError("what is passed from Python cannot be passed on to other processes; set jobs to 1")
    content = with_absolute_paths(own.in_recipe(as_recipe(recipe)), Path.cwd())
    with own.passed(content.backbone.name):
        entries = plan_comparison(content, [methods] if isinstance(methods, str) else methods, budgets, seeds)
        check_data(content, split)
        comparisons: list[Comparison] = []

        def report(outcome: Outcome) -> None:
            if is_complete(entries, outcome):  # written after every run: a long comparison can be read while it runs
                comparisons.append(tabulate(entries, outcome, content, split))
                write_table(folder, "comparison", comparisons[-1])

        trials = Trials(entries, folder, split, device, use_cache, REQUIRED)
        if jobs == 1:
            trials.run(local_executor(jobs, until), watch_with_progress(observers, progress), report)
            return comparisons[-1]
        with trials_with_progress(observers, progress) as shown:
            trials.run(local_executor(jobs, until), shown.watch, report)
        return comparisons[-1]
