"""Figures that compare runs: accuracy against cost, and the accuracy of every domain.

A few runs are bars; more of them are points.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain, cycle
from typing import TYPE_CHECKING

from prunus.measure.score import FEATURE
from prunus.names import shown
from prunus.report.page.board import COSTS, FROZEN, Board, Entry, cost_of, positions
from prunus.report.page.svg import THEME, WIDTH, Drawing, Key, short
from prunus.report.pareto import SPACE, Label, box_of_point, boxes_of_line, place_labels, point_label
from prunus.report.plots import CARD, COLOURS, GREY, INK, RULE, new_figure

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.lines import Line2D

FEWEST_POINTS = 4  # runs; fewer are drawn as bars
WIDE = 5  # costs that differ by a larger factor are drawn on a logarithmic axis
TICKS = [percent * 10**power for power in range(-2, 5) for percent in (1, 2, 5)]
SIZES = {"*": 11, "D": 6, "o": 7}
UNLIMITED = "without a budget"
ROW = 0.8  # of the height of a domain's row, which its series share
LABEL_SIZE = 9  # points; smaller texts could not be read on a phone


def board_figures(board: Board) -> dict[str, Drawing]:
    """Draw the figures of a board, by name."""
    if len(board.entries) < FEWEST_POINTS:
        return {"summary": summary_bars(board), "domains": domain_bars(board)}
    return {cost: tradeoff_figure(board, cost) for cost in COSTS} | {"domains": domains_figure(board)}


def series(board: Board) -> dict[str, list[Entry]]:
    """Group runs into series: the feature extractor, other methods without a budget, and each method with budgets."""
    entries_by_name: dict[str, list[Entry]] = {}
    for entry in board.entries:
        method = entry.run.results.method
        without_budget = FROZEN if method == FEATURE else UNLIMITED
        name = without_budget if entry.run.results.budget is None else method
        entries_by_name.setdefault(name, []).append(entry)
    return entries_by_name


def series_style(board: Board) -> dict[str, tuple[str, str]]:
    """Return the colour and marker of every series."""
    fixed = {FROZEN: (INK, "*"), UNLIMITED: (GREY, "D")}
    budgeted = [name for name in series(board) if name not in fixed]
    return fixed | {name: (COLOURS[number % len(COLOURS)], "o") for number, name in enumerate(budgeted)}


def tradeoff_figure(board: Board, cost: str) -> Drawing:
    """Draw mean accuracy against a cost."""
    figure, (axes,) = new_figure(1, WIDTH, 4)
    drawing = Drawing(figure)
    for entry, point in draw_tradeoff(axes, board, cost):
        drawing.note(point, tradeoff_note(entry), entry.anchor)
    drawing.add_keys(axes)
    axes.margins(SPACE)
    figure.draw_without_rendering()  # computes the layout, which says where there is room for labels
    _label(axes, board, cost)
    return drawing


def draw_tradeoff(axes: Axes, board: Board, cost: str) -> list[tuple[Entry, Line2D]]:
    """Draw a point per run, the Pareto front, and the dense backbone at 100 %; return the points."""
    points = [
        (entry, _point(axes, (x, y), name, series_style(board)[name]))
        for name, entries in series(board).items()
        for entry, x, y in zip(entries, *positions(entries, cost), strict=True)
    ]
    front = board.front(cost)
    if len(front) > 1:  # a single point makes no line
        axes.plot(*positions(front, cost), color=INK, lw=1.2, ls=":", label="Pareto front", zorder=1)
    axes.axvline(100, color=GREY, lw=1, ls="--", label="dense backbone", zorder=1)
    _scale(axes, positions(board.entries, cost)[0])
    axes.set(xlabel=f"{COSTS[cost]}, % of the backbone", ylabel="mean accuracy, %")
    return points


def domains_figure(board: Board) -> Drawing:
    """Draw the accuracy of every run in every domain: a row per domain with a line per series, a point per run."""
    all_series = series(board)
    figure, (axes,) = new_figure(1, WIDTH, 0.7 + (0.2 + 0.1 * len(all_series)) * len(board.domains))
    drawing = Drawing(figure)
    for number, (name, entries) in enumerate(all_series.items()):
        offset = ROW * ((number + 0.5) / len(all_series) - 0.5)  # points of different series do not hide each other
        for entry in entries:
            for row, domain in enumerate(board.domains):
                share = 100 * entry.run.results.domains[domain].accuracy
                note = f"{_title(entry)}\n{shown(domain)}: {share:.1f} %"
                drawing.note(_point(axes, (share, row + offset), name, series_style(board)[name]), note, entry.anchor)
    _name_rows(axes, board.domains)
    axes.set_ylim(len(board.domains) - 0.5, -0.5)
    axes.grid(False)
    for row in range(1, len(board.domains)):
        axes.axhline(row - 0.5, color=RULE, lw=0.8, zorder=0)
    axes.set_xlabel("accuracy, %")
    drawing.add_keys(axes)
    return drawing


def summary_bars(board: Board) -> Drawing:
    """Draw the mean accuracy and the costs of a few runs as bars."""
    titles = ["mean accuracy", *COSTS.values()]
    rows = [
        [100 * entry.run.results.mean_accuracy, *(cost_of(entry.run.results, cost) for cost in COSTS)]
        for entry in board.entries
    ]
    return _bars(board, titles, rows, "%; costs relative to the dense backbone")


def domain_bars(board: Board) -> Drawing:
    """Draw the accuracy of a few runs in every domain as bars."""
    rows = [[100 * entry.run.results.domains[name].accuracy for name in board.domains] for entry in board.entries]
    return _bars(board, board.domains, rows, "accuracy, %")


def is_wide(costs: Sequence[float]) -> bool:
    """Return whether costs differ so much, from each other or from the dense backbone, that the axis is logarithmic."""
    return 0 < WIDE * min(costs) < max(100.0, *costs)


def tradeoff_note(entry: Entry) -> str:
    """Describe a run in a few lines."""
    row = entry.row
    return (
        f"{_title(entry)}\nmean accuracy {100 * row.mean_accuracy:.1f} %\n"
        f"parameters {100 * row.params_ratio:.1f} %, MACs {100 * row.macs_ratio:.1f} %\n"
        f"kernels: largest domain {100 * row.largest_usage:.1f} %, any domain {100 * row.union:.1f} %\n"
        f"{row.stored_bytes / 1e6:.2f} MB to store"
    )


def _bars(board: Board, titles: Sequence[str], rows: Sequence[Sequence[float]], label: str) -> Drawing:
    """Draw a group of bars per title, with a bar per run."""
    count = len(board.entries)
    figure, (axes,) = new_figure(1, WIDTH, 0.6 + len(titles) * (0.14 + 0.2 * count))
    drawing = Drawing(figure)
    thickness = 0.8 / count
    colours = cycle(COLOURS)
    for number, (entry, values) in enumerate(zip(board.entries, rows, strict=True)):
        shade = GREY if entry.run.results.method == FEATURE else next(colours)
        places = [row + thickness * (number - (count - 1) / 2) for row in range(len(titles))]
        bars = axes.barh(places, values, 0.9 * thickness, color=shade)
        axes.bar_label(bars, fmt="%.1f", padding=3, fontsize=9)
        for bar, title, value in zip(bars, titles, values, strict=True):
            drawing.note(bar, f"{_title(entry)}\n{shown(title)}: {value:.1f} %", entry.anchor)
        drawing.keys.append(Key(shown(entry.title), THEME[shade], "square"))
    _name_rows(axes, titles)
    axes.grid(False)
    axes.set_xlim(0, 1.12 * max(chain(*rows), default=0) or 1)
    axes.set_xlabel(label)
    return drawing


def _point(axes: Axes, place: tuple[float, float], name: str, style: tuple[str, str]) -> Line2D:
    x, y = place
    shade, marker = style
    size = SIZES[marker]
    (point,) = axes.plot([x], [y], marker, ms=size, color=shade, markeredgecolor=CARD, label=shown(name))
    return point


def _label(axes: Axes, board: Board, cost: str) -> None:
    """Name points by what the legend does not say, where there is room; those on the front first."""
    front = board.front(cost)
    shades = {
        entry.anchor: series_style(board)[name][0] for name, entries in series(board).items() for entry in entries
    }
    ranked = sorted(board.entries, key=lambda entry: entry not in front)
    places = list(zip(*positions(ranked, cost), strict=True))
    labels = [
        Label(_point_name(entry), place, shades[entry.anchor]) for entry, place in zip(ranked, places, strict=True)
    ]
    taken = [box_of_point(axes, place) for place in places]
    if len(front) > 1:
        taken += boxes_of_line(axes, list(zip(*positions(front, cost), strict=True)))
    place_labels(axes, labels, taken, LABEL_SIZE)


def _point_name(entry: Entry) -> str:
    if entry.run.results.budget is not None:
        return point_label(entry.row)
    return "" if entry.run.results.method == FEATURE else entry.label


def _title(entry: Entry) -> str:
    return shown(f"{entry.label} ({entry.run.name})")


def _name_rows(axes: Axes, names: Sequence[str]) -> None:
    axes.set_yticks(range(len(names)), [short(name) for name in names])
    axes.tick_params(axis="y", length=0)
    axes.invert_yaxis()


def _scale(axes: Axes, costs: Sequence[float]) -> None:
    if is_wide(costs):
        axes.set_xscale("log")
        low, high = min(costs) / 2, 2 * max(100.0, *costs)
        ticks = [tick for tick in TICKS if low < tick < high]
        axes.set_xticks(ticks, [f"{tick:g}" for tick in ticks])
        axes.minorticks_off()
    else:
        axes.set_xlim(left=0)
