"""`prunus compare`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from prunus.cli.options import AsJson, Device, NoCache, Overrides, print_json
from prunus.errors import RecipeError, TrainingError
from prunus.recipes import load_recipe


def command(
    recipe: Annotated[
        Path, typer.Argument(help="The recipe, a TOML file; its method, budget and sharing loss are left aside.")
    ],
    methods: Annotated[
        str,
        typer.Option(
            help="Names from prunus methods, or all; also with options: taps:sparsity=0.5,ba2:sharing=soft_overlap."
        ),
    ] = "all",
    budgets: Annotated[str, typer.Option(help="Budgets for the methods that have one.")] = "1,0.75,0.5,0.25",
    out: Annotated[Path, typer.Option(help="Folder for the runs and the table.")] = Path("runs/compare"),
    split: Annotated[str, typer.Option(help="What to measure on: test, validation or train.")] = "test",
    overrides: Overrides = None,
    device: Device = "auto",
    no_cache: NoCache = False,
    as_json: AsJson = False,
) -> None:
    """Train methods of the literature side by side and print one table.

    The same command goes on where it stopped; with more methods or budgets it adds them.
    """
    from prunus.cli.progress import TrainingProgress
    from prunus.report.comparison import comparison_view
    from prunus.verbs.compare import compare

    console = Console(stderr=as_json)
    comparison = compare(
        load_recipe(recipe, overrides or ()),
        out,
        methods,
        _shares(budgets),
        lambda title: [TrainingProgress(title, console)],
        device,
        not no_cache,
        split,
    )
    if as_json:
        print_json(comparison.model_dump(mode="json"))
    else:
        console.print(comparison_view(comparison, console.width), highlight=False)
        console.print(f"Written to {out}: comparison.csv, .json, .md and .tex", highlight=False)
    if comparison.failed:
        raise TrainingError("; ".join(f"{name}: {reason}" for name, reason in comparison.failed.items()))


def _shares(text: str) -> list[float]:
    try:
        return [float(part) for part in text.split(",")]
    except ValueError:
        raise RecipeError(
            f"--budgets takes shares with commas between them, such as 1,0.5,0.25; got {text!r}"
        ) from None
