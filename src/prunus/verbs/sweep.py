"""Train every combination of methods, budgets, settings and seeds, and find the best trade-offs."""

from collections.abc import Callable, Sequence
from pathlib import Path

from prunus.comparison.execution import Outcome, Trials
from prunus.comparison.executors import sweep_executor
from prunus.comparison.plan import Choices, check_data, plan_trials
from prunus.comparison.table import tabulate_sweep, write_table
from prunus.errors import RecipeError
from prunus.files import as_path
from prunus.measure.comparison import Sweep
from prunus.progress.choice import trials_with_progress
from prunus.recipes import with_absolute_paths
from prunus.report.pareto import pareto_figure
from prunus.report.plots import save_figure
from prunus.training.observers import Watch
from prunus.verbs.arguments import RecipeLike, as_recipe


def sweep(  # noqa: PLR0913  # what to combine, and how to train
    recipe: RecipeLike,
    out: str | Path,
    methods: str | Sequence[str] = (),
    budgets: Sequence[float] = (),
    seeds: Sequence[int] = (),
    grid: Sequence[str] = (),
    *,
    jobs: int | None = None,
    address: str | None = None,
    observers: Watch | None = None,
    note: Callable[[str], None] | None = None,
    device: str = "auto",
    use_cache: bool = True,
    split: str | None = None,
    progress: bool | None = None,
) -> Sweep:
    """Train every combination of methods, budgets, grid and seeds, and plot accuracy against cost.

    Where methods, budgets or seeds are empty, the recipe's own are used. Called again with the same folder, it
    continues where it stopped: finished trials are not trained again. Trials that cannot be trained are listed under
    `failed`. They run on Ray Tune if it is installed, or else one after the other or in `jobs` processes.

    Args:
        methods: names, also with options such as `taps:sparsity=0.5`; `all` is every one.
        grid: recipe keys with their values, such as `training.lr=0.01,0.05`.
        jobs: trials at a time (default: one per GPU, or one per machine without GPUs).
        address: of a Ray cluster; `auto` is the one that was started on this machine.
        observers: title of a training run -> its observers.
        note: receives messages for the user.
        split: what is measured on; if None, "validation" with a grid, whose values are to be chosen from, else "test".
        progress: as in `train`.
    """
    folder = as_path(out, "the folder of a sweep").resolve()  # workers may run in other folders
    if folder.is_file():
        raise RecipeError(f"{out} is a file; name a folder for the sweep")
    if jobs is not None and jobs < 1:
        raise RecipeError(f"jobs must be at least 1, got {jobs}")
    content = with_absolute_paths(as_recipe(recipe), Path.cwd())
    named = [methods] if isinstance(methods, str) else methods
    entries = plan_trials(content, Choices(named, budgets, seeds, grid))
    split = split or ("validation" if grid else "test")  # settings chosen on test images would look too good there
    check_data(content, split)
    sweeps: list[Sweep] = []

    def report(outcome: Outcome) -> None:  # after every trial: a long sweep can be read while it runs
        sweeps.append(tabulate_sweep(entries, outcome, content, split))
        write_table(folder, "sweep", sweeps[-1])
        if sweeps[-1].rows:
            save_figure(pareto_figure(sweeps[-1]), folder / "pareto.svg")

    with trials_with_progress(observers, progress) as shown:
        executor = sweep_executor(jobs, address, note or shown.note)
        Trials(entries, folder, split, device, use_cache).run(executor, shown.watch, report)
    return sweeps[-1]
