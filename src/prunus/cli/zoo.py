"""`prunus zoo`."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from prunus.cli.options import AsJson, print_json


def command(
    names: Annotated[
        list[str] | None,
        typer.Argument(help="Backbones to describe, e.g. timm/resnet50; the bundled ones if left out."),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """List backbones: their size, input and weights."""
    from prunus.report.tables import percent
    from prunus.verbs.zoo import zoo

    rows = zoo(names or ())
    if as_json:
        print_json([asdict(row) for row in rows])
        return
    table = Table()
    for name in ("backbone", "input", "conv weights", "switches", "MACs", "top-1", "weights"):
        table.add_column(name, justify="left" if name in ("backbone", "weights") else "right")
    for row in rows:
        sizes = (
            f"{row.input_size} px",
            f"{row.conv_weights / 1e6:.2f} M",
            f"{row.switches / 1e6:.3f} M",
            f"{row.macs / 1e6:.1f} M",
        )
        table.add_row(row.name, *sizes, percent(row.top1), row.weights)
    console = Console()
    console.print(table)
    if not names:
        console.print("Any convolutional network of timm works too: prunus zoo timm/resnet50", highlight=False)
