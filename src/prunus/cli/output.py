"""Tables and JSON as commands print them."""

import json
from collections.abc import Collection, Iterable, Sequence

import typer
from pydantic_core import to_jsonable_python
from rich.box import HEAVY_HEAD, SIMPLE
from rich.console import Console, RenderableType
from rich.table import Table


def print_json(content: object) -> None:
    """Print models, dataclasses or plain values as JSON, without colours or line breaks inside values."""
    typer.echo(json.dumps(to_jsonable_python(content), indent=2, ensure_ascii=False))


def show(content: object, as_json: bool, *parts: RenderableType) -> None:
    """Print results as JSON, or the parts that show them to a reader: lines of text as they are, tables and groups."""
    if as_json:
        print_json(content)
        return
    for part in parts:
        if isinstance(part, str):
            typer.echo(part)
        else:
            Console(highlight=False).print(part)


def make_table(
    columns: Sequence[str],
    title: str | None = None,
    left: Collection[str] = (),
    gap: int | None = None,
    rows: Iterable[Iterable[str]] = (),
) -> Table:
    """Return a table; the first column and those named in `left` are aligned left, the others right.

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
    for row in rows:
        table.add_row(*row)
    return table
