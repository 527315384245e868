"""Draw the page's figures as SVG and PNG files, for papers and slides."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from itertools import chain, count
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from prunus.measure.cost import CostReport
from prunus.names import shown
from prunus.report.page.board import COSTS, Board, make_boards, positions
from prunus.report.page.board_figures import FEWEST_POINTS, domain_bars, domains_figure, draw_tradeoff, summary_bars
from prunus.report.page.run import ReportedRun
from prunus.report.page.svg import THEME, Drawing, drawing_settings
from prunus.report.plots import new_figure, save_figure, training_figure
from prunus.report.speed import speed_figure
from prunus.report.training_curves import ANY

if TYPE_CHECKING:
    from matplotlib.figure import Figure

NAMED = {name: shade for shade, name in THEME.items()}


def write_figures(folder: Path, runs: Sequence[ReportedRun]) -> list[Path]:
    """Write all figures of a page into a folder, each as SVG and as PNG."""
    paths: list[Path] = []
    with drawing_settings():
        for name, draw in _drawings(runs).items():
            figure = draw()
            paths += [save_figure(figure, folder / f"{name}.{suffix}") for suffix in ("svg", "png")]
    return paths


def _drawings(runs: Sequence[ReportedRun]) -> dict[str, Callable[[], Figure]]:
    boards = make_boards(runs)
    drawings: dict[str, Callable[[], Figure]] = {}
    for number, board in enumerate(boards, 1):
        suffix = f"-{number}" if len(boards) > 1 else ""
        if len(board.entries) < FEWEST_POINTS:
            drawings[f"tradeoff{suffix}"] = partial(_bars, summary_bars, board)
            drawings[f"domains{suffix}"] = partial(_domain_bars, board)
        else:
            drawings[f"tradeoff{suffix}"] = partial(tradeoff_figure, board)
            drawings[f"domains{suffix}"] = partial(_domains_figure, board)
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
    for axes, cost in zip(panels, COSTS, strict=True):
        draw_tradeoff(axes, board, cost)
        front = board.front(cost)
        for entry, x, y in zip(front, *positions(front, cost), strict=True):
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
    return _with_legend(figure)


def _domains_figure(board: Board) -> Figure:
    return _with_legend(_fully_named(domains_figure(board).figure, board.domains))


def _domain_bars(board: Board) -> Figure:
    return _fully_named(_bars(domain_bars, board), board.domains)


def _fully_named(figure: Figure, names: Sequence[str]) -> Figure:
    figure.set_figwidth(11)  # on the page, long names are shortened
    figure.axes[0].set_yticks(range(len(names)), list(map(shown, names)))
    return figure


def _bars(draw: Callable[[Board], Drawing], board: Board) -> Figure:
    """Draw bars of a few runs; on the page, their legend is not part of the figure."""
    from matplotlib.patches import Patch  # noqa: PLC0415  # optional package

    drawing = draw(board)
    patches = [Patch(color=NAMED[key.shade], label=key.name) for key in drawing.keys]
    drawing.figure.legend(handles=patches, loc="outside lower center", frameon=False, fontsize=8)
    return drawing.figure


def _with_legend(figure: Figure) -> Figure:
    handles = dict(zip(*reversed(figure.axes[0].get_legend_handles_labels()), strict=True))  # each name once
    figure.legend(handles.values(), handles.keys(), loc="outside lower center", ncols=5, frameon=False, fontsize=8)
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
    axes.imshow(shares, cmap="RdPu", vmin=0, vmax=100, aspect="auto")
    for y, x in np.ndindex(*shares.shape):
        shade = "white" if shares[y, x] > 55 else "black"
        axes.text(x, y, f"{shares[y, x]:.0f}", ha="center", va="center", fontsize=7, color=shade)
    axes.set_xticks(range(len(xs)), list(map(shown, xs)), rotation=30, ha="right", fontsize=8)
    axes.set_yticks(range(len(ys)), list(map(shown, ys)), fontsize=8)
    axes.set_title(title, fontsize=9)
    axes.grid(False)
    axes.spines[:].set_visible(False)
    return figure
