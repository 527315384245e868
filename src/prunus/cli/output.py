"""Everything that commands print: lines, tables and JSON. No other module writes to the terminal."""

import json
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager

import typer
from pydantic_core import to_jsonable_python
from rich.box import HEAVY_HEAD, SIMPLE
from rich.console import RenderableType
from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn
from rich.status import Status
from rich.text import Text

from prunus.cli.wording import on_command_line
from prunus.names import is_unseen, shown
from prunus.terminal import PlainTable, is_live, plain_console, plain_text


def say(*lines: str) -> None:
    """Print lines; what could not be seen in the names that they hold becomes escapes."""
    for line in lines:
        typer.echo(shown(line))


def tell(*sentences: str) -> None:
    """Print sentences, each on a line of its own; a terminal breaks long ones between words.

    Commands to copy are printed with `say`, because a line break would become part of them.
    """
    console = plain_console()
    for sentence in sentences:
        console.print(plain_text(sentence), soft_wrap=not console.is_terminal)


def complain(kind: str, message: str) -> None:
    """Print what went wrong as one line on standard error, in the words of the command line."""
    text = Text.assemble((f"{kind}:", "bold red"), " ", shown(on_command_line(message)))
    plain_console(stderr=True).print(text, soft_wrap=True)


def waiting(text: str) -> Status:
    """Show, in a terminal, what a command is busy with."""
    return plain_console(stderr=True).status(plain_text(text))


@contextmanager
def measuring(text: str) -> Iterator[Callable[[str, str, int, int], None]]:
    """Show, in a terminal, how far each step of a measurement is: what is being done, for which domain."""
    console = plain_console(stderr=True)
    doing, count = TextColumn("{task.description}", markup=False), TextColumn("{task.fields[count]}")
    columns = (SpinnerColumn(), doing, BarColumn(), count)
    with Progress(*columns, console=console, transient=True, disable=not is_live(console)) as progress:
        task = progress.add_task(shown(text), total=None, count="")

        def watch(step: str, domain: str, done: int, total: int) -> None:
            progress.update(
                task, description=shown(f"{step} {domain}"), completed=done, total=total, count=f"{done}/{total}"
            )

        yield watch


def print_json(content: object) -> None:
    """Print models, dataclasses or plain values as JSON, without colours or line breaks inside values."""
    text = json.dumps(to_jsonable_python(content), indent=2, ensure_ascii=False)
    typer.echo("".join(_escape(character) for character in text))


def _escape(character: str) -> str:
    """Write what could not be seen as JSON writes it: the data stay exact."""
    return json.dumps(character)[1:-1] if character != "\n" and is_unseen(character) else character


def show(content: object, as_json: bool, *parts: RenderableType) -> None:
    """Print results as JSON, or the parts that show them to a reader: lines of text, tables and groups."""
    if as_json:
        print_json(content)
        return
    for part in parts:
        if isinstance(part, str):
            tell(part)
        else:
            plain_console().print(part)


def make_table(
    columns: Sequence[str],
    title: str | None = None,
    left: Collection[str] = (),
    gap: int | None = None,
    rows: Iterable[Iterable[str]] = (),
) -> PlainTable:
    """Return a table; the first column and those named in `left` are aligned left, the others right.

    Names on the left continue in the next line where a terminal is narrow; numbers on the right do not.

    Args:
        gap: spaces between the columns of a table without borders; with borders if None.
    """
    framed = gap is None
    table = PlainTable(
        title=title,
        box=HEAVY_HEAD if framed else SIMPLE,
        pad_edge=framed,
        padding=(0, 1) if gap is None else (0, gap, 0, 0),
    )
    names = [index for index, column in enumerate(columns) if index == 0 or column in left]
    for index, column in enumerate(columns):
        table.add_column(column, justify="left" if index in names else "right")
    table.name_columns(*names)
    for row in rows:
        table.add_row(*row)
    return table
