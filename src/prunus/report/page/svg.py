"""Turn a figure of matplotlib into SVG inside the page: themed, small, and with notes to point at."""

from __future__ import annotations

import io
import re
import xml.etree.ElementTree as ET
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from prunus.errors import MissingExtraError
from prunus.names import shown
from prunus.report.plots import CARD, COLOURS, GREY, INK, RULE

if TYPE_CHECKING:
    from matplotlib.artist import Artist
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.lines import Line2D

SVG = "{http://www.w3.org/2000/svg}"
HREF = "{http://www.w3.org/1999/xlink}href"
THEME = {INK: "ink", GREY: "quiet", RULE: "line", CARD: "card"} | {c: f"c{n}" for n, c in enumerate(COLOURS)}
PAINTED = re.compile("|".join(THEME))
LONG_NUMBER = re.compile(r"(-?\d+\.\d{2})\d+")
WIDTH = 5.0  # inches of 72 units: half a wide screen, or a whole phone
SETTINGS: dict[Any, Any] = {  # names may contain dollar signs; the same figure is always the same text
    "text.parse_math": False,
    "svg.hashsalt": "prunus",
    "svg.fonttype": "none",
    "font.size": 10,
    "axes.edgecolor": GREY,
    "xtick.color": GREY,
    "ytick.color": GREY,
    "xtick.labelcolor": INK,
    "ytick.labelcolor": INK,
    "text.color": INK,
    "axes.labelcolor": INK,
}
MARKS = {"o": "circle", "*": "star", "D": "diamond", "s": "square"}  # of matplotlib -> of the legend
LINES = {"-": "line", "--": "dashes", ":": "dots", "-.": "dashdot"}


@dataclass(frozen=True)
class Key:
    """An entry of a legend: a name, the name of a colour of the theme, and a kind of mark."""

    name: str
    shade: str
    mark: str


@dataclass
class Drawing:
    """A figure for the page, with what a reader sees when pointing at parts of it."""

    figure: Figure
    notes: dict[str, str] = field(default_factory=dict)
    keys: list[Key] = field(default_factory=list)

    def note(self, part: Artist, text: str, anchor: str = "") -> None:
        """Add a note to a part, which then also leads to an anchor of the page."""
        part.set_gid(f"note-{len(self.notes)}")
        self.notes[f"note-{len(self.notes)}"] = text
        if anchor:
            part.set_url(f"#{anchor}")

    def add_keys(self, axes: Axes) -> None:
        """Add the labelled lines and markers of a panel to the legend, each name once."""
        for line in axes.lines:
            label = str(line.get_label())
            if not label.startswith("_") and label not in {key.name for key in self.keys}:
                self.keys.append(Key(label, THEME[str(line.get_color())], _mark(line)))

    def svg(self, name: str) -> str:
        """Return the figure as an SVG element whose ids begin with a name."""
        content = io.BytesIO()
        metadata = dict.fromkeys(("Creator", "Date", "Format", "Type"))
        self.figure.savefig(content, format="svg", transparent=True, metadata=metadata)
        root = ET.fromstring(content.getvalue())
        for key in ("width", "height", "version"):
            del root.attrib[key]
        root.set("aria-hidden", "true")  # the figure around it has a name, and a table has its numbers
        root.remove(root[0])  # a style sheet, which would change the whole page
        for element in list(root.iter()):
            _clean(element, name, self.notes)
        return ET.tostring(root, encoding="unicode")


@contextmanager
def drawing_settings() -> Iterator[None]:
    """Draw with the settings of the page."""
    try:
        import matplotlib as mpl  # noqa: PLC0415  # optional package
    except ImportError:
        raise MissingExtraError("matplotlib", "report", "drawing figures") from None
    with mpl.rc_context(SETTINGS):
        yield


def short(name: str, longest: int = 24) -> str:
    """Shorten a name; long ones keep their beginning and a little more of their end, which often is a number."""
    visible = shown(name)
    end = longest // 2
    return visible if len(visible) <= longest else f"{visible[: longest - end - 1]}…{visible[-end:]}"


def _mark(line: Line2D) -> str:
    style = str(line.get_linestyle())
    return LINES[style] if style in LINES else MARKS[str(line.get_marker())]


def _clean(element: ET.Element, name: str, notes: Mapping[str, str]) -> None:
    element.tag = element.tag.removeprefix(SVG)
    element.tail = None
    if element.tag != "text":
        element.text = None
    if target := element.attrib.pop(HREF, ""):
        is_link = element.tag == "a"
        element.set("href", target if is_link else f"#{name}-{target[1:]}")
        element.attrib.pop("target", None)
    identity = element.attrib.pop("id", "")
    if identity in notes:
        element.set("class", "noted")
        title = ET.Element("title")
        title.text = notes[identity]
        element.insert(0, title)
    elif identity and element.tag in ("path", "clipPath"):  # others are not referred to
        element.set("id", f"{name}-{identity}")
    if element.get("transform", "").startswith("rotate(-0 "):
        del element.attrib["transform"]
    for key, value in element.attrib.items():
        if key in ("d", "x", "y", "transform", "points"):
            element.set(key, LONG_NUMBER.sub(r"\1", " ".join(value.split())))
        elif key in ("style", "clip-path"):
            themed = PAINTED.sub(lambda match: f"var(--{THEME[match.group()]})", value)
            element.set(key, re.sub(r"font-family: [^;]*;? ?", "", themed).replace("url(#", f"url(#{name}-"))
