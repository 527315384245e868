"""`prunus export`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from prunus.cli.options import ModelFile


def command(
    model: ModelFile,
    onnx: Annotated[Path, typer.Option(help="Folder for the ONNX models.")],
    single: Annotated[
        bool, typer.Option("--single", help="Write one model that takes the domain's number as an input.")
    ] = False,
) -> None:
    """Write ONNX models: one per domain with only the channels it needs, or one for all domains.

    Example: prunus export model.prunus --onnx onnx
    """
    from prunus.onnx.files import TOLERANCE, weights_file
    from prunus.onnx.model import OPSET
    from prunus.report.tables import megabytes
    from prunus.verbs.export import export

    with Console().status("exporting and comparing"):
        written = export(model, onnx, single)
    import onnxruntime  # installed, or the export would have failed

    for path in written:
        typer.echo(f"{path}: {megabytes(path.stat().st_size)}")
    if weights := weights_file(written[0]):
        typer.echo(f"{weights}: {megabytes(weights.stat().st_size)}, weights")
    typer.echo(
        f"Opset {OPSET}. Checked with ONNX Runtime {onnxruntime.__version__}: the logits are those of {model} "
        f"to within {TOLERANCE:g} of the largest."
    )
