"""`prunus evaluate`."""

from __future__ import annotations

from enum import Enum
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from prunus.cli.options import AsJson, Device, NoCache, print_json
from prunus.config import Crops


class CropChoice(str, Enum):
    """How many crops of a test image are averaged."""

    one = "1"
    five = "5"
    ten = "10"
    paper = "paper"


CROPS: dict[CropChoice, Crops] = {CropChoice.one: 1, CropChoice.five: 5, CropChoice.ten: 10, CropChoice.paper: "paper"}


def command(
    target: Annotated[Path, typer.Argument(help="A run folder or a model file.")],
    split: Annotated[str, typer.Option(help="train, validation or test.")] = "test",
    data: Annotated[Path | None, typer.Option(help="Folder that holds the domains by name.")] = None,
    crops: Annotated[CropChoice | None, typer.Option(help="Crops per image; the recipe's own if left out.")] = None,
    device: Device = "auto",
    no_cache: NoCache = False,
    as_json: AsJson = False,
) -> None:
    """Measure accuracy, usage, computation and size of a run or a model file."""
    from prunus.report.tables import results_view
    from prunus.verbs.evaluate import evaluate

    with Console(stderr=True).status(f"measuring {target}"):
        results = evaluate(target, split, data, CROPS[crops] if crops else None, device, not no_cache)
    if as_json:
        print_json(results.model_dump(mode="json"))
    else:
        Console().print(results_view(results))
