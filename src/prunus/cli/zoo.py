"""`prunus zoo`."""

from __future__ import annotations

from typing import Annotated

import typer
from rich.console import Console

from prunus.cli.options import AsJson
from prunus.cli.output import make_table, print_json

COLUMNS = ("backbone", "input", "conv weights", "switches", "MACs", "top-1", "weights")


def command(
    names: Annotated[
        list[str] | None,
        typer.Argument(help="Backbones, such as timm/resnet50.", show_default="the bundled ones"),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """List backbones with their input, size and weights.

    Example: prunus zoo timm/resnet50
    """
    from prunus.report.tables import percent
    from prunus.verbs.zoo import zoo

    rows = zoo(names or ())
    if as_json:
        print_json(rows)
        return
    table = make_table(COLUMNS, left=("weights",))
    for row in rows:
        sizes = (
            f"{row.input_size} px",
            f"{row.conv_weights / 1e6:.2f} M",
            f"{row.switches / 1e6:.3f} M",
            f"{row.macs / 1e6:.1f} M",
        )
        table.add_row(row.name, *sizes, percent(row.top1), row.weights)
    Console().print(table)
    if not names:
        typer.echo("All convolutional networks of timm work as well: prunus zoo timm/resnet50")
