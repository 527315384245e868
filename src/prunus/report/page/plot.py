"""What all figures of the page are built from: plain data for plotly.js.

Colours are names such as $ink, which the page replaces by those of its light or dark theme. Text from users is escaped,
because plotly.js interprets some HTML.
"""

from collections.abc import Sequence
from html import escape
from typing import Any

from prunus.names import shown

Plot = dict[str, Any]  # "data" and "layout" of plotly.js

INK, MUTED, LOW, HIGH, CARD = "$ink", "$muted", "$low", "$high", "$card"
NUM_COLOURS = 10
LONGEST = 22  # characters of a name on an axis


def colour(number: int) -> str:
    """Name the colour of a series."""
    return f"$c{number % NUM_COLOURS}"


def plain(text: str) -> str:
    """Escape a text for plotly.js; what could not be seen in it becomes visible."""
    return escape(shown(text), quote=False)


def named_ticks(names: Sequence[str]) -> Plot:
    """Label an axis with names; long ones keep their end, which tells layers apart."""
    shortened = [name if len(name) <= LONGEST else f"…{name[1 - LONGEST :]}" for name in names]
    return {"tickvals": [plain(name) for name in names], "ticktext": [plain(name) for name in shortened]}
