"""Train methods side by side on one recipe and put them into one table."""

from collections.abc import Sequence
from pathlib import Path

from prunus.comparison.execution import Outcome, Trials
from prunus.comparison.executors import local_executor
from prunus.comparison.plan import ALL, REQUIRED, check_data, plan_comparison
from prunus.comparison.table import is_complete, tabulate, write_table
from prunus.comparison.trials import Watch
from prunus.config import Recipe
from prunus.errors import RecipeError
from prunus.measure.comparison import Comparison
from prunus.recipes import with_absolute_paths

BUDGETS = (1.0, 0.75, 0.5, 0.25)


def compare(  # noqa: PLR0913, PLR0917  # what to compare, and how to train
    recipe: Recipe,
    out: str | Path,
    methods: str | Sequence[str] = ALL,
    budgets: Sequence[float] = BUDGETS,
    observers: Watch = lambda _title: (),
    device: str = "auto",
    use_cache: bool = True,
    split: str = "test",
    seeds: Sequence[int] = (),
    jobs: int = 1,
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
    """
    folder = Path(out)
    if folder.is_file():
        raise RecipeError(f"{folder} is a file; name a folder for the comparison")
    if jobs < 1:
        raise RecipeError(f"jobs must be at least 1, got {jobs}")
    recipe = with_absolute_paths(recipe, Path.cwd())
    entries = plan_comparison(recipe, [methods] if isinstance(methods, str) else methods, budgets, seeds)
    check_data(recipe, split)
    comparisons: list[Comparison] = []

    def report(outcome: Outcome) -> None:
        if is_complete(entries, outcome):  # written after every run: a long comparison can be read while it runs
            comparisons.append(tabulate(entries, outcome, recipe, split))
            write_table(folder, "comparison", comparisons[-1])

    trials = Trials(entries, folder, split, device, use_cache, REQUIRED)
    trials.run(local_executor(jobs), observers, report)
    return comparisons[-1]
