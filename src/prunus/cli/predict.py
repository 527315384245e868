"""`prunus predict`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from prunus.cli.options import AsJson, ModelFile
from prunus.cli.output import make_table, print_json


def command(
    model: ModelFile,
    images: Annotated[list[Path], typer.Argument(help="One or more image files.")],
    domain: Annotated[str, typer.Option(help="The domain of the images.")],
    top: Annotated[int, typer.Option(min=1, help="Number of classes to show.")] = 5,
    as_json: AsJson = False,
) -> None:
    """Classify images with a model file.

    Example: prunus predict model.prunus rose.jpg --domain flowers
    """
    from prunus.report.tables import percent
    from prunus.runtime.predictor import Predictor

    results = list(zip(images, Predictor(model).predict(images, domain, top), strict=True))
    if as_json:
        print_json([{"image": image, "domain": domain, "predictions": rows} for image, rows in results])
        return
    for image, predictions in results:
        table = make_table(("class", "probability"), f"{image} ({domain})")
        for prediction in predictions:
            table.add_row(prediction.label, percent(prediction.probability))
        Console().print(table)
