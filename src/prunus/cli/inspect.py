"""`prunus inspect`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import typer
from rich.console import Console
from rich.table import Table

from prunus.cli.options import AsJson, ModelFile
from prunus.cli.output import make_table, print_json
from prunus.report.tables import percent

if TYPE_CHECKING:
    from prunus.measure.inspection import Inspection

NARROWEST = 24  # characters that tell the names of layers apart


def command(model: ModelFile, as_json: AsJson = False) -> None:
    """Show the contents of a model file: layers, usage by domain, sharing between domains, and bytes.

    Example: prunus inspect model.prunus
    """
    from prunus.verbs.inspect import inspect

    inspection = inspect(model)
    if as_json:
        print_json(inspection)
        return
    console = Console(highlight=False)
    domains = list(inspection.domains)
    typer.echo(f"{model}: {inspection.backbone}, {inspection.dtype}, {len(domains)} domains")
    titles = _titles(domains, console.width)
    if titles != domains:
        named = ", ".join(f"{title} {name}" for title, name in zip(titles, domains, strict=True))
        console.print(f"domains: {named}", markup=False)
    for table in (_layers(inspection, titles, console.width), _sharing(inspection, titles), _parts(inspection)):
        console.print(table)


def _titles(names: Sequence[str], width: int) -> list[str]:
    """Return the domains' names as titles of columns, or numbers if they do not fit."""
    needed = NARROWEST + 2 * 9 + sum(max(len(name), 5) + 2 for name in names)
    return list(names) if needed <= width else [str(number) for number in range(1, len(names) + 1)]


def _layers(inspection: Inspection, titles: Sequence[str], width: int) -> Table:
    columns = ("layer", "kernels", "kept", *titles)
    table = make_table(columns, "kernels before pruning, kept, and used by each domain", gap=2)
    room = max(NARROWEST, width - 2 * 9 - 2 - sum(max(len(title), 5) + 2 for title in titles))
    for layer in inspection.layers:
        name = layer.name if len(layer.name) <= room else f"…{layer.name[1 - room :]}"  # ends differ
        used = [percent(share, 0) for share in layer.usage.values()]
        table.add_row(name, str(layer.num_kernels), str(layer.kept), *used)
    return table


def _sharing(inspection: Inspection, titles: Sequence[str]) -> Table:
    table = make_table(("", *titles), "sharing: kernels that both use / that either uses", gap=2)
    for title, row in zip(titles, inspection.sharing.values(), strict=True):
        table.add_row(title, *(percent(share, 0) for share in row.values()))
    return table


def _parts(inspection: Inspection) -> Table:
    table = make_table(("part", "bytes", "share"), "bytes", gap=2)
    total = sum(inspection.bytes_by_part.values())
    for part, count in inspection.bytes_by_part.items():
        table.add_row(part, f"{count:,}", percent(count / total))
    table.add_section()
    table.add_row("all", f"{total:,}", "")
    return table
