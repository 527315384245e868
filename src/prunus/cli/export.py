"""`prunus export`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console


def command(
    model: Annotated[Path, typer.Argument(help="A model file.")],
    onnx: Annotated[Path, typer.Option(help="Folder for the ONNX models.")],
    single: Annotated[
        bool, typer.Option("--single", help="One model with the domain's number as an input, not one per domain.")
    ] = False,
) -> None:
    """Write ONNX models: one per domain, with only the channels it needs, or one for all."""
    from prunus.onnx.files import TOLERANCE, weights_file
    from prunus.onnx.model import OPSET
    from prunus.report.tables import megabytes
    from prunus.verbs.export import export

    console = Console(highlight=False)
    with console.status("exporting and comparing"):
        written = export(model, onnx, single)
    import onnxruntime  # there, or the export would have said so

    for path in written:
        console.print(f"{path}: {megabytes(path.stat().st_size)}", soft_wrap=True)
    if weights := weights_file(written[0]):
        console.print(f"{weights}: {megabytes(weights.stat().st_size)}, weights", soft_wrap=True)
    console.print(
        f"Opset {OPSET}. ONNX Runtime {onnxruntime.__version__} answers as {model} does, "
        f"to {TOLERANCE:g} of the largest logit.",
        soft_wrap=True,
    )
