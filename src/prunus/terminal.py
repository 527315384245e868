"""What is shown in a terminal: every text and every cell is plain text, in which rich finds no markup or emoji."""

import importlib.util
from typing import Any

from rich.box import HEAVY_HEAD, Box
from rich.console import Console, ConsoleOptions, RenderableType, RenderResult
from rich.padding import PaddingDimensions
from rich.table import Table
from rich.text import Text
from typing_extensions import override

from prunus.names import shown


def plain_text(*lines: str, style: str = "") -> Text:
    """Return lines as rich shows them unchanged; what could not be seen in them becomes escapes."""
    return Text("\n".join(map(shown, lines)), style)


def plain_console(stderr: bool = False) -> Console:
    """Return a terminal that prints strings as they are, without markup, emoji or highlights."""
    return Console(stderr=stderr, markup=False, emoji=False, highlight=False)


def is_live(console: Console) -> bool:
    """Return whether what was printed can be replaced: in a terminal, and in a notebook that has ipywidgets."""
    return console.is_terminal or (console.is_jupyter and importlib.util.find_spec("ipywidgets") is not None)


def _cell(content: RenderableType | None) -> RenderableType | None:
    return plain_text(content) if isinstance(content, str) else content


class PlainTable(Table):
    """A table of plain texts; headers, cells and the title may be foreign names.

    Where a terminal is too narrow, names continue in the next line and numbers stay whole.
    """

    def __init__(
        self,
        *headers: str,
        title: str | None = None,
        box: Box = HEAVY_HEAD,
        pad_edge: bool = True,
        padding: PaddingDimensions = (0, 1),
    ) -> None:
        text = None if title is None else plain_text(title, style="table.title")
        super().__init__(title=text, title_justify="left", box=box, pad_edge=pad_edge, padding=padding)
        for header in headers:
            self.add_column(header)

    @override
    def add_column(self, header: RenderableType = "", *arguments: Any, **options: Any) -> None:
        super().add_column(_cell(header) or "", *arguments, **options)

    def name_columns(self, *indices: int) -> None:
        """Let the cells of these columns, which hold names, take several lines, and those of the others only one."""
        for index, column in enumerate(self.columns):
            column.no_wrap = index not in indices
            column.overflow = "fold" if index in indices else "ellipsis"

    @override
    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        if self.title is None:
            yield from super().__rich_console__(console, options)
            return
        title, self.title = self.title, None  # rich would wrap it at the width of a narrow table
        try:
            yield title
            yield from super().__rich_console__(console, options)
        finally:
            self.title = title

    @override
    def add_row(self, *cells: RenderableType | None, **options: Any) -> None:
        super().add_row(*map(_cell, cells), **options)
