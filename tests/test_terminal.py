"""Plain texts and tables: rich shows every character and obeys none."""

import io

import pytest
from rich.console import Console
from rich.text import Text

from prunus.terminal import PlainTable, is_live, plain_console, plain_text
from tests.makers.hostile_files import HOSTILE_NAMES


def printed(content: object) -> str:
    """Print in a terminal that knows markup and emoji."""
    console = Console(file=io.StringIO(), width=80, force_terminal=False)
    console.print(content)
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


@pytest.mark.parametrize(("name", "visible"), HOSTILE_NAMES.items())
def test_a_text_is_shown_on_any_console(name: str, visible: str) -> None:
    assert printed(plain_text(name, "end")) == f"{visible}\nend\n"


@pytest.mark.parametrize(("name", "visible"), HOSTILE_NAMES.items())
def test_titles_headers_and_cells_are_shown_on_any_console(name: str, visible: str) -> None:
    table = PlainTable("a", name, title=name)
    table.add_row(name, "a long cell, so that the title fits", style="bold")
    text = printed(table)
    assert text.count(visible) == 3
    assert text.splitlines()[0].rstrip() == visible


def test_a_cell_may_be_a_text_of_several_lines() -> None:
    table = PlainTable("a")
    table.add_row(Text("one\ntwo"))
    assert "│ one │\n│ two │" in printed(table)


def test_a_console_finds_no_markup_emoji_or_numbers_in_a_string() -> None:
    console = plain_console()
    with console.capture() as capture:
        console.print("[red]:bug:[/red] [/] 7")
    assert capture.get() == "[red]:bug:[/red] [/] 7\n"


@pytest.mark.parametrize(("has_widgets", "expected"), [(True, True), (False, False)])
def test_a_notebook_is_live_if_it_can_replace_what_was_printed(
    monkeypatch: pytest.MonkeyPatch, has_widgets: bool, expected: bool
) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: object() if has_widgets else None)
    assert is_live(Console(file=io.StringIO(), force_jupyter=True)) is expected
    assert is_live(Console(file=io.StringIO(), force_terminal=True))
    assert not is_live(Console(file=io.StringIO()))


LONG = "handwritten-characters-of-many-alphabets"


def test_in_a_narrow_terminal_names_and_numbers_stay_whole_and_headers_break_between_words() -> None:
    table = PlainTable("domain", "accuracy", "frozen features", "kernels used", "computation", "bytes on disk")
    table.add_row(LONG, "100.0 %", "90.0 %", "25.0 %", "40.3 %", "1,234,567")
    table.name_columns(0)
    text = printed(table)
    rows = [[cell.strip() for cell in line.strip("│┃").split("│" if "│" in line else "┃")] for line in text.split("\n")]
    assert max(map(len, text.splitlines())) <= 80
    assert "…" not in text
    assert "".join(row[0] for row in rows[4:] if len(row) == 6) == LONG
    assert next(row for row in rows if "100.0 %" in row)[1:] == ["100.0 %", "90.0 %", "25.0 %", "40.3 %", "1,234,567"]
    assert " ".join(row[2] for row in rows[1:3] if len(row) == 6).strip() == "frozen features"


def test_other_texts_give_way_to_the_names_in_the_first_column() -> None:
    table = PlainTable("backbone", "MACs", "weights")
    table.add_row("timm/mobilenetv3_large_100.ra_in1k", "215.3 M", "a long story about where these weights come from")
    table.name_columns(0, 2)
    text = printed(table)
    assert "│ timm/mobilenetv3_large_100.ra_in1k │" in text
    assert "…" not in text


def test_a_title_is_not_wrapped_at_the_width_of_its_table() -> None:
    table = PlainTable("a", title="a title that is wider than the table below it")
    table.add_row("1")
    assert printed(table).startswith("a title that is wider than the table below it\n")
    assert printed(table).startswith("a title")  # also the second time
