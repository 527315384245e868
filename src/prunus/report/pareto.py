"""The plot of a sweep: mean accuracy against size and computation, with the Pareto fronts."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from prunus.measure.comparison import ComparisonRow, Sweep, front
from prunus.report.comparison import OVER, row_label
from prunus.report.plots import COLOURS, GREY, new_figure

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Box = Sequence[float]  # left, bottom, right, top
COSTS = {"stored_bytes": (1e-6, "size of all domains (MB)"), "macs_ratio": (100.0, "MACs (% of the backbone)")}
FRONT = "Pareto front"
MARKERS = ("o", "s", "^")
HOLLOW = "white"
DARK = "#444444"
SPACE = 0.15  # of the axes' height and width, left free around the points
FONT_SIZE = 7.5
RADIUS = 4  # of a marker, in pixels
GAP = 1.5  # around labels, in pixels
# where a label is tried, in points from its marker, with its alignment
PLACES = (
    (6, 4, "left", "bottom"),
    (6, -4, "left", "top"),
    (-6, 4, "right", "bottom"),
    (-6, -4, "right", "top"),
    (0, 8, "center", "bottom"),
    (0, -8, "center", "top"),
    (8, 0, "left", "center"),
    (-8, 0, "right", "center"),
)


@dataclass(frozen=True)
class Style:
    """How the points of a method are drawn."""

    colour: str
    marker: str

    @classmethod
    def number(cls, index: int) -> Style:
        """Return the style of a method by its place: another marker where the colours begin again."""
        return cls(COLOURS[index % len(COLOURS)], MARKERS[index // len(COLOURS) % len(MARKERS)])


@dataclass(frozen=True)
class Label:
    """A text beside a point."""

    text: str
    point: tuple[float, float]
    colour: str


def pareto_figure(sweep: Sweep) -> Figure:
    """Draw every row of a sweep with its spread over the seeds, coloured by method, and the Pareto fronts."""
    figure, panels = new_figure(len(COSTS), 10, 4.6)
    methods = dict.fromkeys(row.method for row in sweep.rows)
    styles = {method: Style.number(index) for index, method in enumerate(methods)}
    for axes, (cost, (_, title)) in zip(panels, COSTS.items(), strict=True):
        _draw_front(axes, sweep, cost)
        for row in sweep.rows:
            _draw_row(axes, row, cost, styles[row.method])
        axes.margins(SPACE)
        axes.set_xlim(left=max(0.0, axes.get_xlim()[0]))
        axes.set(xlabel=title, ylabel=f"mean accuracy on {sweep.split} images (%)")
    seeds = max((len(row.seeds) for row in sweep.rows if row.spread), default=1)
    spread = f"; bars: ± standard deviation over {seeds} seeds" if seeds > 1 else ""
    number = len(sweep.domains)
    figure.suptitle(f"{sweep.backbone}, {number} domain{'' if number == 1 else 's'}{spread}", fontsize=10)
    _draw_legend(figure, sweep, styles)
    figure.draw_without_rendering()  # computes the layout, which says where there is room for labels
    for axes, cost in zip(panels, COSTS, strict=True):
        _label(axes, sweep, cost)
    return figure


def point_label(row: ComparisonRow) -> str:
    """Name a point by what its colour does not say: options and budget."""
    return row_label(row).removeprefix(row.method).strip()


def _draw_front(axes: Axes, sweep: Sweep, cost: str) -> None:
    if points := [_point(sweep.rows[index], cost) for index in front(sweep.rows, cost)]:
        axes.plot(*zip(*points, strict=True), color=GREY, lw=1.2, ls="--", zorder=1, label=FRONT)


def _draw_row(axes: Axes, row: ComparisonRow, cost: str, style: Style) -> None:
    x, y = _point(row, cost)
    dx, dy = _errors(row, cost) if row.spread else (None, None)
    face = HOLLOW if row.is_over_budget else style.colour
    half = f"{style.colour}80"
    axes.errorbar(x, y, dy, dx, fmt=style.marker, ms=5, lw=1, color=style.colour, ecolor=half, markerfacecolor=face)


def _draw_legend(figure: Figure, sweep: Sweep, styles: Mapping[str, Style]) -> None:
    """Explain what occurs in the figure: the front, the methods, and hollow markers."""
    from matplotlib.lines import Line2D  # noqa: PLC0415  # optional package

    lines = [line for line in figure.axes[0].lines if line.get_label() == FRONT]
    for method, style in styles.items():
        lines.append(Line2D([], [], color=style.colour, marker=style.marker, ms=5, ls="", label=method))
    if any(row.is_over_budget for row in sweep.rows):
        text = f"{OVER} over its budget β, not on the front"
        lines.append(Line2D([], [], color=DARK, marker="o", markerfacecolor=HOLLOW, ms=5, ls="", label=text))
    figure.legend(handles=lines, loc="outside lower center", ncols=6, frameon=False, fontsize=8)


def _label(axes: Axes, sweep: Sweep, cost: str) -> None:
    """Label the points of a sweep, those on the front first."""
    on_front = front(sweep.rows, cost)
    taken = [box for row in sweep.rows for box in _boxes_of(axes, row, cost)]
    if on_front:
        taken += boxes_of_line(axes, [_point(sweep.rows[index], cost) for index in on_front])
    ranked = sorted(range(len(sweep.rows)), key=lambda i: i not in on_front)
    labels = [Label(point_label(sweep.rows[index]), _point(sweep.rows[index], cost), DARK) for index in ranked]
    place_labels(axes, labels, taken, FONT_SIZE)


def place_labels(axes: Axes, labels: Sequence[Label], taken: Sequence[Box], size: float) -> None:
    """Write labels beside their points, the first ones first, where no other label, point or line is; else nowhere.

    Args:
        taken: boxes on the screen that must stay free, after the layout was computed.
    """
    taken = list(taken)
    frame = axes.get_window_extent().padded(-GAP)
    for wanted in labels:
        for x, y, horizontal, vertical in PLACES if wanted.text else ():
            label = axes.annotate(
                wanted.text,
                wanted.point,
                (x, y),
                textcoords="offset points",
                ha=horizontal,
                va=vertical,
                fontsize=size,
                color=wanted.colour,
            )
            label.set_in_layout(False)  # the layout stays as it was when the room was found
            extent = label.get_window_extent().padded(GAP)
            box = extent.extents
            if frame.contains(*extent.min) and frame.contains(*extent.max) and not any(overlap(box, o) for o in taken):
                taken.append(box)
                break
            label.remove()


def overlap(box: Box, other: Box) -> bool:
    """Return whether two boxes share more than a border."""
    return box[0] < other[2] and other[0] < box[2] and box[1] < other[3] and other[1] < box[3]


def box_of_point(axes: Axes, point: tuple[float, float]) -> Box:
    """Return the box of a marker on the screen."""
    x, y = axes.transData.transform(point)
    return float(x - RADIUS), float(y - RADIUS), float(x + RADIUS), float(y + RADIUS)


def _boxes_of(axes: Axes, row: ComparisonRow, cost: str) -> list[Box]:
    """Return the boxes of a marker and its error bars on the screen."""
    x, y = _point(row, cost)
    dx, dy = _errors(row, cost)
    corners = [
        axes.transData.transform([(left, bottom), (right, top)])
        for left, bottom, right, top in ((x, y, x, y), (x - dx, y, x + dx, y), (x, y - dy, x, y + dy))
    ]
    radii = (RADIUS, 1, 1)
    return [
        (float(low[0] - r), float(low[1] - r), float(high[0] + r), float(high[1] + r))
        for (low, high), r in zip(corners, radii, strict=True)
    ]


def boxes_of_line(axes: Axes, points: Sequence[tuple[float, float]]) -> list[Box]:
    """Return small boxes along a line on the screen."""
    corners = axes.transData.transform(points)
    shares = np.linspace(0, 1, 50)[:, None]
    ends = itertools.pairwise(corners)
    return [(x - 1, y - 1, x + 1, y + 1) for start, end in ends for x, y in start + shares * (end - start)]


def _point(row: ComparisonRow, cost: str) -> tuple[float, float]:
    return COSTS[cost][0] * getattr(row, cost), 100 * row.mean_accuracy


def _errors(row: ComparisonRow, cost: str) -> tuple[float, float]:
    """Return the standard deviations of a point; 0 with one seed."""
    return (COSTS[cost][0] * getattr(row.spread, cost), 100 * row.spread.mean_accuracy) if row.spread else (0.0, 0.0)
