"""`prunus submit`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from prunus.cli.evaluate import CROPS, CropChoice
from prunus.cli.options import Device, NoCache


def command(
    target: Annotated[Path, typer.Argument(help="A run folder or a model file, trained on the Visual Decathlon.")],
    out: Annotated[Path, typer.Option(help="The zip file to write.")] = Path("results.zip"),
    data: Annotated[Path | None, typer.Option(help="The decathlon-1.0 folder, if it has moved.")] = None,
    crops: Annotated[CropChoice | None, typer.Option(help="Crops per image; the recipe's own if left out.")] = None,
    device: Device = "auto",
    no_cache: NoCache = False,
) -> None:
    """Answer the Visual Decathlon's test images and write the zipped results.json."""
    from prunus.verbs.submit import submit

    console = Console()
    with Console(stderr=True).status(f"answering with {target}"):
        written = submit(target, out, data, CROPS[crops] if crops else None, device, not no_cache)
    counts = ", ".join(f"{name} {count}" for name, count in written.images.items())
    console.print(f"{written.path}: {counts}", highlight=False, markup=False, soft_wrap=True)
    if written.missing:
        console.print(f"note: the challenge wants all ten sets; missing: {', '.join(written.missing)}", soft_wrap=True)
