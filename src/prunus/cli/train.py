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
    recipe: Annotated[Path | None, typer.Argument(help="Recipe (TOML).")] = None,
    out: Annotated[Path | None, typer.Option(help="Folder for a new run.")] = None,
    resume: Annotated[Path | None, typer.Option(help="Folder of a run to continue.")] = None,
    final: Annotated[bool, typer.Option("--final", help="Train on the train and validation images.")] = False,
    skip_bad_images: Annotated[bool, typer.Option("--skip-bad-images", help="Skip unreadable images.")] = False,
    overrides: Overrides = None,
    device: Device = "auto",
    no_cache: NoCache = False,
) -> None:
    """Train one network on all domains of a recipe, within its budget.

    Example: prunus train recipe.toml --out runs/a --set budget=0.5
    """
    from prunus.cli.progress import TrainingProgress
    from prunus.verbs import train as verbs

    flags = {"training.splits=train+validation": final, "skip_bad_images=true": skip_bad_images}
    changes = [*(overrides or ()), *(change for change, is_set in flags.items() if is_set)]
    chosen = load_recipe(recipe, changes) if recipe else None
    console = Console()
    if resume:
        if out:
            raise RecipeError("--resume continues in the run's own folder; remove --out")
        if changes and not chosen:
            raise RecipeError("a resumed run keeps its recipe; remove --set, --final and --skip-bad-images")
        run = verbs.resume(resume, [TrainingProgress(f"{resume}", console)], device, chosen, not no_cache)
    elif chosen and out:
        run = verbs.train(chosen, out, [TrainingProgress(f"{out}", console)], device, not no_cache)
    else:
        raise RecipeError(
            "pass a recipe and a folder (prunus train recipe.toml --out runs/a) or a run (prunus train --resume runs/a)"
        )
    typer.echo(f"Done. Next: {verbs.next_steps(run)}")
