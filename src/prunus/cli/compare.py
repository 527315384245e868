"""`prunus compare`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from prunus.cli.options import AsJson, Device, NoCache, Overrides
from prunus.cli.output import print_json
from prunus.errors import RecipeError, TrainingError
from prunus.recipes import load_recipe


def command(
    recipe: Annotated[Path, typer.Argument(help="Recipe (TOML); its method, budget and sharing loss are ignored.")],
    methods: Annotated[
        str,
        typer.Option(help="Names listed by prunus methods, with options if needed, as in taps:sparsity=0.5,ba2."),
    ] = "all",
    budgets: Annotated[str, typer.Option(help="Budgets of the methods that have one.")] = "1,0.75,0.5,0.25",
    out: Annotated[Path, typer.Option(help="Folder for the runs and the table.")] = Path("runs/compare"),
    split: Annotated[str, typer.Option(help="Images to measure on: test, validation or train.")] = "test",
    overrides: Overrides = None,
    device: Device = "auto",
    no_cache: NoCache = False,
    as_json: AsJson = False,
) -> None:
    """Train methods of the literature on the same data and print one table.

    Run the same command again to continue an interrupted comparison, or to add methods and budgets.

    Example: prunus compare recipe.toml --methods union,ba2 --budgets 0.5
    """
    from prunus.cli.progress import TrainingProgress
    from prunus.report.comparison import comparison_view
    from prunus.verbs.compare import compare

    console = Console(stderr=as_json, highlight=False)
    comparison = compare(
        load_recipe(recipe, overrides or ()),
        out,
        methods,
        _parse_budgets(budgets),
        lambda title: [TrainingProgress(title, console)],
        device,
        not no_cache,
        split,
    )
    if as_json:
        print_json(comparison)
    else:
        console.print(comparison_view(comparison, console.width))
        typer.echo(f"Written to {out}: comparison.csv, .json, .md and .tex")
    if comparison.failed:
        raise TrainingError("; ".join(f"{name}: {reason}" for name, reason in comparison.failed.items()))


def _parse_budgets(text: str) -> list[float]:
    try:
        return [float(part) for part in text.split(",")]
    except ValueError:
        raise RecipeError(f"--budgets must be numbers separated by commas, such as 1,0.5,0.25; got {text!r}") from None
