"""`prunus inspect`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.box import SIMPLE
from rich.console import Console
from rich.table import Table

from prunus.cli.options import AsJson, print_json

if TYPE_CHECKING:
    from prunus.measure.inspection import Inspection

NARROWEST = 24  # characters that a layer's name needs to be told from others


def command(model: Annotated[Path, typer.Argument(help="A model file.")], as_json: AsJson = False) -> None:
    """Show what is in a model file: layers, what each domain uses, what domains share, where the bytes go."""
    from prunus.verbs.inspect import inspect

    found = inspect(model)
    if as_json:
        print_json(found.model_dump(mode="json"))
        return
    console = Console(highlight=False)
    console.print(
        f"{model}: {found.backbone}, {found.dtype}, {len(found.domains)} domains", markup=False, soft_wrap=True
    )
    titles = _titles(list(found.domains), console.width)
    if titles != list(found.domains):
        named = ", ".join(f"{title} {name}" for title, name in zip(titles, found.domains, strict=True))
        console.print(f"domains: {named}", markup=False)
    for table in (_layers(found, titles, console.width), _sharing(found, titles), _parts(found)):
        console.print(table)


def _titles(names: Sequence[str], width: int) -> list[str]:
    """Name columns after domains where they fit, else number them."""
    needed = NARROWEST + 2 * 9 + sum(max(len(name), 5) + 2 for name in names)
    return list(names) if needed <= width else [str(number) for number in range(1, len(names) + 1)]


def _layers(found: Inspection, titles: Sequence[str], width: int) -> Table:
    from prunus.report.tables import percent

    table = _table("kernels before pruning, kept, and used by each domain", ("layer", "kernels", "kept", *titles))
    room = max(NARROWEST, width - 2 * 9 - 2 - sum(max(len(title), 5) + 2 for title in titles))
    for layer in found.layers:
        name = layer.name if len(layer.name) <= room else f"…{layer.name[1 - room :]}"  # the end tells layers apart
        used = [percent(share, 0) for share in layer.usage.values()]
        table.add_row(name, str(layer.num_kernels), str(layer.kept), *used)
    return table


def _sharing(found: Inspection, titles: Sequence[str]) -> Table:
    from prunus.report.tables import percent

    table = _table("sharing: both use / either uses", ("", *titles))
    for title, row in zip(titles, found.sharing.values(), strict=True):
        table.add_row(title, *(percent(share, 0) for share in row.values()))
    return table


def _parts(found: Inspection) -> Table:
    from prunus.report.tables import percent

    table = _table("bytes", ("part", "bytes", "share"))
    total = sum(found.bytes_by_part.values())
    for part, count in found.bytes_by_part.items():
        table.add_row(part, f"{count:,}", percent(count / total))
    table.add_section()
    table.add_row("all", f"{total:,}", "")
    return table


def _table(title: str, columns: Sequence[str]) -> Table:
    table = Table(title=title, box=SIMPLE, pad_edge=False, padding=(0, 2, 0, 0), title_justify="left")
    for place, column in enumerate(columns):
        table.add_column(column, justify="right" if place else "left", no_wrap=True)
    return table
