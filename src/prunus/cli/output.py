"""Tables and JSON as commands print them."""

from __future__ import annotations

import json
from collections.abc import Collection, Sequence

import typer
from pydantic_core import to_jsonable_python
from rich.box import HEAVY_HEAD, SIMPLE
from rich.table import Table


def print_json(content: object) -> None:
    """Print models, dataclasses or plain values as JSON, without colours or line breaks inside values."""
    typer.echo(json.dumps(to_jsonable_python(content), indent=2, ensure_ascii=False))


def make_table(
    columns: Sequence[str], title: str | None = None, left: Collection[str] = (), gap: int | None = None
) -> Table:
    """Return an empty table; the first column and those named in `left` are aligned left, the others right.

    Args:
        gap: spaces between the columns of a table without borders; with borders if None.
    """
    framed = gap is None
    table = Table(
        title=title,
        title_justify="left",
        box=HEAVY_HEAD if framed else SIMPLE,
        pad_edge=framed,
        padding=(0, 1) if gap is None else (0, gap, 0, 0),
    )
    for index, column in enumerate(columns):
        is_left = index == 0 or column in left
        table.add_column(column, justify="left" if is_left else "right", no_wrap=not framed)
    return table
