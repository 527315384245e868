"""`prunus evaluate`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from prunus.cli.options import CROPS, AsJson, CropsOption, Device, NoCache
from prunus.cli.output import print_json


def command(
    target: Annotated[Path, typer.Argument(help="Run folder or model file.")],
    split: Annotated[str, typer.Option(help="Images to measure on: test, validation or train.")] = "test",
    data: Annotated[
        Path | None, typer.Option(help="Folder with the domains by name.", show_default="as trained")
    ] = None,
    crops: CropsOption = None,
    device: Device = "auto",
    no_cache: NoCache = False,
    as_json: AsJson = False,
) -> None:
    """Measure the accuracy, kernel usage, computation and size of a run or a model file.

    Example: prunus evaluate model.prunus --data data
    """
    from prunus.report.tables import results_view
    from prunus.verbs.evaluate import evaluate

    with Console(stderr=True).status(f"measuring {target}"):
        results = evaluate(target, split, data, CROPS[crops] if crops else None, device, not no_cache)
    if as_json:
        print_json(results)
    else:
        Console().print(results_view(results))
