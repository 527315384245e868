"""`prunus report`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console


def command(
    runs: Annotated[list[Path], typer.Argument(help="Run folders, or folders that hold some.")],
    out: Annotated[Path, typer.Option(help="The page.")] = Path("report.html"),
    figures: Annotated[Path | None, typer.Option(help="Folder for the figures as SVG and PNG files.")] = None,
) -> None:
    """Write one page about runs: trade-off, tables, usage, sharing, training, latency and bytes."""
    from prunus.verbs.report import write_report

    console = Console(highlight=False, soft_wrap=True)
    with Console(stderr=True).status("reading runs"):
        written = write_report(runs, out, figures)
    for name, reason in written.left_out.items():
        console.print(f"left out: {name}: {reason}", markup=False)
    count = f"{len(written.runs)} run{'s' * (len(written.runs) > 1)}"
    size = f"{written.page.stat().st_size / 1e6:.1f} MB"
    console.print(f"{written.page}: {count}, {size}; open it in a browser, it needs no network", markup=False)
    if written.figures:
        console.print(f"{figures}: {len(written.figures)} figures as SVG and PNG", markup=False)
