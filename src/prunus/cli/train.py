"""`prunus train`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from prunus.cli.options import Device, NoCache, Overrides
from prunus.errors import RecipeError
from prunus.recipes import load_recipe


def command(
    recipe: Annotated[Path | None, typer.Argument(help="The recipe, a TOML file.")] = None,
    out: Annotated[Path | None, typer.Option(help="Folder for a new run.")] = None,
    resume: Annotated[Path | None, typer.Option(help="Folder of a run to go on with.")] = None,
    final: Annotated[bool, typer.Option("--final", help="Train on train + validation, for the one last test.")] = False,
    skip_bad_images: Annotated[
        bool, typer.Option("--skip-bad-images", help="Leave out images that cannot be read.")
    ] = False,
    overrides: Overrides = None,
    device: Device = "auto",
    no_cache: NoCache = False,
) -> None:
    """Train all domains of a recipe by its method; with a budget, within it."""
    from prunus.cli.progress import TrainingProgress
    from prunus.verbs import train as verbs

    extra = ["training.splits=train+validation"] * final + ["skip_bad_images=true"] * skip_bad_images
    chosen = load_recipe(recipe, [*(overrides or ()), *extra]) if recipe else None
    console = Console()
    if resume:
        if out:
            raise RecipeError("--resume goes on in its own folder; leave --out away")
        if not chosen and (extra or overrides):
            raise RecipeError("a resumed run keeps its recipe; leave --set, --final and --skip-bad-images away")
        run = verbs.resume(resume, [TrainingProgress(f"{resume}", console)], device, chosen, not no_cache)
    elif chosen and out:
        run = verbs.train(chosen, out, [TrainingProgress(f"{out}", console)], device, not no_cache)
    else:
        raise RecipeError(
            "name a recipe and a folder (prunus train recipe.toml --out runs/a) or a run (prunus train --resume runs/a)"
        )
    console.print(
        f"Done. Next: {verbs.next_steps(run)}",
        highlight=False,
        soft_wrap=True,
    )
