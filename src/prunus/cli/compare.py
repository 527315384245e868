"""`prunus compare`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from prunus.cli.options import AsJson, Device, NoCache, Overrides, print_json
from prunus.errors import RecipeError
from prunus.recipes import load_recipe


def command(
    recipe: Annotated[Path, typer.Argument(help="The recipe, a TOML file; its method and budget are left aside.")],
    methods: Annotated[
        str,
        typer.Option(help="Methods, or all; also with options: taps:sparsity=0.5,ba2:sharing=soft_overlap."),
    ] = "all",
    budgets: Annotated[str, typer.Option(help="Budgets for the methods that have one.")] = "1,0.75,0.5,0.25",
    out: Annotated[Path, typer.Option(help="Folder for the runs and the table.")] = Path("runs/compare"),
    overrides: Overrides = None,
    device: Device = "auto",
    no_cache: NoCache = False,
    as_json: AsJson = False,
) -> None:
    """Train methods of the literature side by side and print one table; the same command goes on where it stopped."""
    from prunus.cli.progress import TrainingProgress
    from prunus.report.comparison import comparison_view
    from prunus.verbs.compare import compare

    console = Console(stderr=as_json)
    comparison = compare(
        load_recipe(recipe, overrides or ()),
        out,
        methods.split(","),
        _shares(budgets),
        lambda title: [TrainingProgress(title, console)],
        device,
        not no_cache,
    )
    if as_json:
        print_json(comparison)
        return
    console.print(comparison_view(comparison, console.width))
    console.print(f"Written to {out}: comparison.csv, .json, .md and .tex", highlight=False)


def _shares(text: str) -> list[float]:
    try:
        return [float(part) for part in text.split(",")]
    except ValueError:
        raise RecipeError(
            f"--budgets takes shares with commas between them, such as 1,0.5,0.25; got {text!r}"
        ) from None
