"""Draw the page's figures as SVG and PNG files, for papers and slides."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from itertools import chain, count
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from prunus.errors import MissingExtraError
from prunus.measure.cost import CostReport
from prunus.names import shown
from prunus.report.page.board import COSTS, Board, make_boards, positions
from prunus.report.page.board_figures import is_wide, series, series_style
from prunus.report.page.plot import INK, MUTED, colour
from prunus.report.page.run import ReportedRun
from prunus.report.plots import COLOURS, GREY, new_figure, save_figure, training_figure
from prunus.report.speed import speed_figure
from prunus.report.training_curves import ANY

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# names may contain dollar signs; the same figure is always the same file
MARKERS = {"star": ("*", 110.0), "diamond": ("D", 28.0), "circle": ("o", 36.0)}  # symbol -> marker and size
SHADES = {INK: "black", MUTED: GREY} | {colour(number): shade for number, shade in enumerate(COLOURS)}
SETTINGS: dict[Any, Any] = {"text.parse_math": False, "svg.hashsalt": "prunus", "svg.fonttype": "none"}


def write_figures(folder: Path, runs: Sequence[ReportedRun]) -> list[Path]:
    """Write all figures of a page into a folder, each as SVG and as PNG."""
    try:
        import matplotlib as mpl  # noqa: PLC0415  # optional package
    except ImportError:
        raise MissingExtraError("matplotlib", "report", "drawing figures") from None
    paths: list[Path] = []
    with mpl.rc_context(SETTINGS):
        for name, draw in _drawings(runs).items():
            figure = draw()
            paths += [save_figure(figure, folder / f"{name}.{suffix}") for suffix in ("svg", "png")]
    return paths


def _drawings(runs: Sequence[ReportedRun]) -> dict[str, Callable[[], Figure]]:
    boards = make_boards(runs)
    drawings: dict[str, Callable[[], Figure]] = {}
    for number, board in enumerate(boards, 1):
        suffix = f"-{number}" if len(boards) > 1 else ""
        drawings[f"tradeoff{suffix}"] = partial(tradeoff_figure, board)
        drawings[f"domains{suffix}"] = partial(domains_figure, board)
    for run, name in zip(runs, file_names([run.name for run in runs]), strict=True):
        if run.contents.costs:
            drawings[f"{name}-usage"] = partial(usage_figure, run.contents.costs)
        if len(run.contents.sharing) > 1:
            drawings[f"{name}-sharing"] = partial(sharing_figure, run.contents.sharing)
        if run.epochs:
            drawings[f"{name}-training"] = partial(training_figure, run.epochs, run.results.budget)
        if run.bench:
            drawings[f"{name}-latency"] = partial(speed_figure, run.bench)
    return drawings


def file_names(names: Sequence[str]) -> list[str]:
    """Turn names into file names; those that would be equal, ignoring case, are numbered."""
    taken: dict[str, str] = {}  # lower case, for file systems that ignore case -> file name
    for name in names:
        plain = re.sub(r"[^A-Za-z0-9._=-]+", "-", name)
        numbered = (f"{plain}-{number}" for number in count(2))
        free = next(candidate for candidate in chain([plain], numbered) if candidate.lower() not in taken)
        taken[free.lower()] = free
    return list(taken.values())


def tradeoff_figure(board: Board) -> Figure:
    """Draw mean accuracy against parameters and MACs, with the names of the runs on the Pareto fronts."""
    figure, panels = new_figure(len(COSTS), 11, 4.6)
    styles = series_style(board)
    for axes, cost in zip(panels, COSTS, strict=True):
        for name, entries in series(board).items():
            _scatter(axes, positions(entries, cost), name, styles[name])
        front = board.front(cost)
        xs, ys = positions(front, cost)
        if len(front) > 1:  # a single point makes no line
            axes.plot(xs, ys, color="black", lw=1, ls=":", label="Pareto front")
        for entry, x, y in zip(front, xs, ys, strict=True):
            # no run lies up and to the left of a front, so there is space for its label
            axes.annotate(
                entry.label,
                (x, y),
                (-4, 2),
                textcoords="offset points",
                rotation=-40,
                rotation_mode="anchor",
                ha="right",
                va="bottom",
                fontsize=7,
            )
        axes.axvline(100, color=GREY, lw=1, ls="--", label="dense backbone")
        _scale(axes, positions(board.entries, cost)[0])
        axes.set(xlabel=f"{COSTS[cost]}, % of the backbone", ylabel="mean accuracy, %")
    handles = panels[0].get_legend_handles_labels()
    figure.legend(*handles, loc="outside lower center", ncols=5, frameon=False, fontsize=8)
    return figure


def domains_figure(board: Board) -> Figure:
    """Draw the accuracy of every run in every domain: a row per domain, a point per run."""
    figure, (axes,) = new_figure(1, 8, 1.4 + 0.45 * len(board.domains))
    styles = series_style(board)
    for name, entries in series(board).items():
        pairs = [(entry, row) for entry in entries for row in range(len(board.domains))]
        shares = [100 * entry.run.results.domains[board.domains[row]].accuracy for entry, row in pairs]
        _scatter(axes, (shares, [row for _, row in pairs]), name, styles[name])
    axes.set_yticks(range(len(board.domains)), list(map(shown, board.domains)))
    axes.set(xlabel="accuracy, %")
    axes.invert_yaxis()
    figure.legend(*axes.get_legend_handles_labels(), loc="outside lower center", ncols=4, frameon=False, fontsize=8)
    return figure


def usage_figure(costs: CostReport) -> Figure:
    """Draw the share of each layer's kernels used by each domain and by any domain."""
    rows = [[*costs.layer_usage(layer).values(), layer.union / layer.num_kernels] for layer in costs.layers]
    return _heat_map(rows, [*costs.domains, ANY], [layer.name for layer in costs.layers], "kernels used, %")


def sharing_figure(sharing: Mapping[str, Mapping[str, float]]) -> Figure:
    """Draw how much each pair of domains shares."""
    return _heat_map([list(row.values()) for row in sharing.values()], list(sharing), list(sharing), "both / either, %")


def _heat_map(rows: Sequence[Sequence[float]], xs: Sequence[str], ys: Sequence[str], title: str) -> Figure:
    figure, (axes,) = new_figure(1, 2.4 + 0.75 * len(xs), 1.4 + 0.3 * len(ys))
    shares = 100 * np.array(rows)
    axes.imshow(shares, cmap="Blues", vmin=0, vmax=100, aspect="auto")
    for y, x in np.ndindex(*shares.shape):
        shade = "white" if shares[y, x] > 55 else "black"
        axes.text(x, y, f"{shares[y, x]:.0f}", ha="center", va="center", fontsize=7, color=shade)
    axes.set_xticks(range(len(xs)), list(map(shown, xs)), rotation=30, ha="right", fontsize=8)
    axes.set_yticks(range(len(ys)), list(map(shown, ys)), fontsize=8)
    axes.set_title(title, fontsize=9)
    axes.grid(False)
    axes.spines[:].set_visible(False)
    return figure


def _scatter(axes: Axes, points: tuple[Sequence[float], Sequence[float]], name: str, style: tuple[str, str]) -> None:
    colour_name, symbol = style
    marker, size = MARKERS[symbol]
    axes.scatter(*points, size, color=SHADES[colour_name], marker=marker, label=shown(name), alpha=0.8, zorder=3)


def _scale(axes: Axes, costs: Sequence[float]) -> None:
    if is_wide(costs):
        axes.set_xscale("log")
        ticks = [tick for tick in (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000) if min(costs) / 2 < tick < 2 * max(costs)]
        axes.set_xticks(ticks, [str(tick) for tick in ticks])
        axes.minorticks_off()
    else:
        axes.set_xlim(left=0)
