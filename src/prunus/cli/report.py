"""`prunus report`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from prunus.report.tables import megabytes, plural


def command(
    runs: Annotated[list[Path], typer.Argument(help="Run folders, or folders that contain runs.")],
    out: Annotated[Path, typer.Option(help="HTML file to write.")] = Path("report.html"),
    figures: Annotated[Path | None, typer.Option(help="Also write the figures as SVG and PNG to this folder.")] = None,
) -> None:
    """Write one HTML page about runs: accuracy against cost, tables, usage, sharing, training, latency and size.

    Example: prunus report runs --out report.html
    """
    from prunus.verbs.report import write_report

    with Console(stderr=True).status("reading runs"):
        written = write_report(runs, out, figures)
    for name, reason in written.left_out.items():
        typer.echo(f"left out: {name}: {reason}")
    size = megabytes(written.page.stat().st_size)
    typer.echo(f"{written.page}: {plural(len(written.runs), 'run')}, {size}; open it in a browser")
    if written.figures:
        typer.echo(f"{figures}: {len(written.figures)} figures as SVG and PNG")
