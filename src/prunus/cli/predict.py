"""`prunus predict`."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from prunus.cli.options import AsJson, print_json


def command(
    model: Annotated[Path, typer.Argument(help="A model file.")],
    images: Annotated[list[Path], typer.Argument(help="One or more images.")],
    domain: Annotated[str, typer.Option(help="Which of the model's domains the images belong to.")],
    top: Annotated[int, typer.Option(min=1, help="How many classes to show.")] = 5,
    as_json: AsJson = False,
) -> None:
    """Classify images with a model file."""
    from prunus.report.tables import percent
    from prunus.runtime.predictor import Predictor

    found = Predictor(model).predict(images, domain, top)
    if as_json:
        rows = [[asdict(prediction) for prediction in predictions] for predictions in found]
        print_json(
            [{"image": str(i), "domain": domain, "predictions": row} for i, row in zip(images, rows, strict=True)]
        )
        return
    for image, predictions in zip(images, found, strict=True):
        table = Table(title=f"{image} ({domain})", title_justify="left")
        table.add_column("class")
        table.add_column("probability", justify="right")
        for prediction in predictions:
            table.add_row(prediction.label, percent(prediction.probability))
        Console().print(table)
