"""What is shown in a terminal: every text and every cell is plain text, in which rich finds no markup or emoji."""

import importlib.util
from typing import Any

from rich.box import HEAVY_HEAD, Box
from rich.console import Console, RenderableType
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
    """A table of plain texts; headers, cells and the title may be foreign names."""

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

    @override
    def add_row(self, *cells: RenderableType | None, **options: Any) -> None:
        super().add_row(*map(_cell, cells), **options)
