"""Figures inside the page: themed, with ids of their own, and nothing of a foreign name becomes markup."""

import xml.etree.ElementTree as ET

import pytest

from prunus.report.page.svg import LONG_NUMBER, Drawing, drawing_settings, short
from prunus.report.plots import COLOURS, GREY, INK, new_figure
from tests.makers.run_folders import HOSTILE

TAGS = {"svg", "g", "path", "use", "text", "title", "a", "defs", "clipPath", "rect"}


def _drawing(label: str = "a", note: str = "note of a") -> Drawing:
    with drawing_settings():
        figure, (axes,) = new_figure(1, 4, 3)
        (line,) = axes.plot([1, 2, 3], [1, 2.123456, 3], "o", color=COLOURS[3], label=label)
        axes.axhline(2, color=INK, ls="--", label="limit")
        axes.set_xlabel(label)
    drawing = Drawing(figure)
    drawing.note(line, note, "run-7")
    drawing.add_keys(axes)
    return drawing


def _svg(drawing: Drawing, name: str) -> str:
    with drawing_settings():
        return drawing.svg(name)


def test_colours_are_those_of_the_theme_and_no_style_sheet_leaks_into_the_page() -> None:
    text = _svg(_drawing(), "x")
    assert "var(--c3)" in text
    assert "var(--ink)" in text
    assert not any(colour in text for colour in (*COLOURS, GREY, INK))
    assert "<style" not in text
    assert "font-family" not in text


def test_two_figures_on_a_page_have_no_id_in_common_and_refer_to_their_own() -> None:
    drawing = _drawing()
    roots = [ET.fromstring(_svg(drawing, name)) for name in ("one", "two")]
    ids = [{element.get("id") for element in root.iter() if element.get("id")} for root in roots]
    assert not ids[0] & ids[1]
    for root, own in zip(roots, ids, strict=True):
        uses = [element.get("href", "") for element in root.iter("use")]
        clips = [element.get("clip-path", "") for element in root.iter() if element.get("clip-path")]
        assert uses
        assert clips
        assert {use.removeprefix("#") for use in uses} <= own
        assert {clip.removeprefix("url(#").removesuffix(")") for clip in clips} <= own


def test_a_noted_part_has_its_note_with_its_lines_and_leads_to_its_run() -> None:
    root = ET.fromstring(_svg(_drawing(note="first\nsecond"), "x"))
    (part,) = [element for element in root.iter("g") if element.get("class") == "noted"]
    assert part.findtext("title") == "first\nsecond"
    links = list(part.iter("a"))
    assert {link.get("href") for link in links} == {"#run-7"}
    assert all(link.get("target") is None for link in links)


def test_hostile_names_stay_text() -> None:
    root = ET.fromstring(_svg(_drawing(label=HOSTILE, note=HOSTILE), "x"))
    assert HOSTILE in {element.text for element in root.iter("text")}
    assert {element.tag for element in root.iter()} <= TAGS


def test_the_legend_has_every_name_once_with_its_mark() -> None:
    drawing = _drawing()
    drawing.add_keys(drawing.figure.axes[0])
    keys = [(key.name, key.shade, key.mark) for key in drawing.keys]
    assert keys == [("a", "c3", "circle"), ("limit", "ink", "dashes")]


def test_the_same_figure_is_the_same_text_and_small() -> None:
    first, second = (_svg(_drawing(), "x") for _ in range(2))
    assert first == second
    assert len(first) < 10_000
    assert not LONG_NUMBER.search(" ".join(element.get("d", "") for element in ET.fromstring(first).iter()))


@pytest.mark.parametrize(
    ("name", "expected"),
    [("owl", "owl"), ("x" * 24, "x" * 24), ("stages.0.0." + "y" * 20, "stages.0.0.…" + "y" * 12)],
)
def test_long_names_keep_their_beginning_and_their_end(name: str, expected: str) -> None:
    assert short(name) == expected
    assert len(short(name, 9)) <= 9
