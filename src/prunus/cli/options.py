"""Arguments and options that several commands share."""

from enum import Enum
from pathlib import Path
from typing import Annotated

import typer

from prunus.config import Crops


class CropChoice(str, Enum):
    """How many crops of a test image are averaged."""

    one = "1"
    five = "5"
    ten = "10"
    paper = "paper"


CROPS: dict[CropChoice, Crops] = {CropChoice.one: 1, CropChoice.five: 5, CropChoice.ten: 10, CropChoice.paper: "paper"}

ModelFile = Annotated[Path, typer.Argument(help="Model file.")]
Device = Annotated[str, typer.Option(help="Where to compute: auto, cpu or cuda.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")]
Explain = Annotated[bool, typer.Option("--explain", help="Explain the columns.")]
NoCache = Annotated[bool, typer.Option("--no-cache", help="Decode all images again, without the cache.")]
CropsOption = Annotated[CropChoice | None, typer.Option(help="Crops per image.", show_default="the recipe's")]
Overrides = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="KEY=VALUE", help="Change a recipe key, as in training.epochs=5. May be repeated."),
]
