"""`prunus inspect`."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from prunus.cli.options import AsJson, print_json


def command(model: Annotated[Path, typer.Argument(help="A model file.")], as_json: AsJson = False) -> None:
    """Show what is in a model file: layers, what each domain uses, what domains share, where the bytes go."""
    from prunus.report.tables import percent
    from prunus.verbs.inspect import inspect

    found = inspect(model)
    if as_json:
        print_json(asdict(found))
        return
    console = Console(highlight=False)
    console.print(f"{model}: {found.backbone}, {len(found.domains)} domains")
    layers = Table(title="kernels kept, and used by each domain", title_justify="left")
    for name in ("layer", "kernels", "kept", *found.domains):
        layers.add_column(name, justify="left" if name == "layer" else "right", overflow="fold")
    for layer in found.layers:
        used = [percent(share, 0) for share in layer.usage.values()]
        layers.add_row(layer.name, str(layer.num_kernels), percent(layer.kept / layer.num_kernels, 0), *used)
    sharing = Table(title="sharing: kernels both use / kernels either uses", title_justify="left")
    for name in ("", *found.domains):
        sharing.add_column(name, justify="left" if not name else "right")
    for name, row in found.sharing.items():
        sharing.add_row(name, *(percent(share, 0) for share in row.values()))
    parts = Table(title="bytes", title_justify="left")
    parts.add_column("part")
    parts.add_column("bytes", justify="right")
    parts.add_column("share", justify="right")
    total = sum(found.bytes_by_part.values())
    for part, count in found.bytes_by_part.items():
        parts.add_row(part, f"{count:,}", percent(count / total))
    parts.add_section()
    parts.add_row("all", f"{total:,}", "")
    for table in (layers, sharing, parts):
        console.print(table)
