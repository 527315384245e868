"""What is shown in a terminal: every text and every cell is plain text, in which rich finds no markup or emoji."""

import importlib.util
import textwrap
from collections.abc import Iterable
from copy import copy
from dataclasses import replace
from typing import Any

from rich.box import HEAVY_HEAD, Box
from rich.cells import cell_len
from rich.console import Console, ConsoleOptions, RenderableType, RenderResult
from rich.padding import PaddingDimensions
from rich.table import Table
from rich.text import Text
from typing_extensions import override

from prunus.names import shown

LEAST = 8  # characters of a column that others make narrow


def plain_text(*lines: str, style: str = "") -> Text:
    """Return lines as rich shows them unchanged; what could not be seen in them becomes escapes."""
    return Text("\n".join(map(shown, lines)), style)


def plain_console(stderr: bool = False) -> Console:
    """Return a terminal that prints strings as they are, without markup, emoji or highlights."""
    return Console(stderr=stderr, markup=False, emoji=False, highlight=False)


def is_live(console: Console) -> bool:
    """Return whether what was printed can be replaced: in a terminal, and in a notebook that has ipywidgets."""
    return console.is_terminal or (console.is_jupyter and importlib.util.find_spec("ipywidgets") is not None)


def _width(console: Console, contents: Iterable[RenderableType]) -> int:
    return max((console.measure(content).maximum for content in contents), default=0)


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
        if self.title is not None:  # rich would wrap it at the width of a narrow table
            yield self.title
        fitted = copy(self)
        fitted.title = None
        fitted.columns = [replace(column) for column in self.columns]
        fitted._fit(console, options)
        yield from Table.__rich_console__(fitted, console, options)

    def _fit(self, console: Console, options: ConsoleOptions) -> None:
        """In a narrow terminal, break headers between words, and let other texts give way to the first column."""
        around = self.padding[1] + self.padding[3] + 1
        cells = [_width(console, column.cells) for column in self.columns]
        headers = [_width(console, [column.header]) for column in self.columns]
        if sum(map(max, cells, headers)) + around * len(cells) < options.max_width:
            return
        widths = list(map(max, cells, headers))
        for index, column in enumerate(self.columns):
            if column.no_wrap and isinstance(column.header, Text):
                lines = textwrap.wrap(column.header.plain, max(cells[index], LEAST), break_long_words=False)
                column.header = Text("\n".join(lines), column.header.style)
                widths[index] = max(cells[index], *map(cell_len, lines), 0)
        texts = [index for index, column in enumerate(self.columns) if not column.no_wrap]
        if 0 in texts and len(texts) > 1:
            least = [max(LEAST, column.min_width or 0) for column in self.columns]
            taken = sum(least[index] if index in texts else widths[index] for index in range(1, len(widths)))
            self.columns[0].width = min(widths[0], max(LEAST, options.max_width - 1 - around * len(cells) - taken))

    @override
    def add_row(self, *cells: RenderableType | None, **options: Any) -> None:
        super().add_row(*map(_cell, cells), **options)
