"""`prunus submit`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from prunus.cli.options import CROPS, CropsOption, Device, NoCache


def command(
    target: Annotated[Path, typer.Argument(help="Run folder or model file, trained on the Visual Decathlon.")],
    out: Annotated[Path, typer.Option(help="Zip file to write.")] = Path("results.zip"),
    data: Annotated[
        Path | None, typer.Option(help="The folder decathlon-1.0, if it has moved.", show_default="as trained")
    ] = None,
    crops: CropsOption = None,
    device: Device = "auto",
    no_cache: NoCache = False,
) -> None:
    """Classify the test images of the Visual Decathlon and write the zipped results.json.

    Example: prunus submit runs/decathlon --out results.zip
    """
    from prunus.verbs.submit import submit

    with Console(stderr=True).status(f"classifying with {target}"):
        written = submit(target, out, data, CROPS[crops] if crops else None, device, not no_cache)
    counts = ", ".join(f"{name} {count}" for name, count in written.images.items())
    typer.echo(f"{written.path}: {counts}")
    if written.missing:
        typer.echo(f"note: the challenge requires all ten sets; missing: {', '.join(written.missing)}")
