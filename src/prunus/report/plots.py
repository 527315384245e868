"""Plots of a run: accuracy, usage of each layer, and training curves."""

from __future__ import annotations

import io
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from prunus.errors import MissingExtraError
from prunus.files import write_atomically
from prunus.measure.cost import CostReport
from prunus.measure.evaluation import Evaluation
from prunus.measure.score import FEATURE
from prunus.names import shown
from prunus.report.tables import percent
from prunus.report.training_curves import accuracy_curves, accuracy_kind, union_curve, usage_curves
from prunus.run_folder import EpochReport

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

INK = "#111111"
CARD = "#ffffff"
RULE = "#eeeeee"
GREY = "#9aa0a6"
# those of the page in its light theme
COLOURS = ("#7b2d5b", "#b35c00", "#0b7a75", "#2f5bd0", "#2e7d32", "#c22f4e", "#6a3fc4", "#5a6b00", "#8a4b2a", "#546174")


def write_plots(folder: Path, results: Evaluation, costs: CostReport, epochs: Sequence[EpochReport]) -> list[Path]:
    """Write all plots of a run as PNG files."""
    figures = {
        "accuracy": accuracy_figure(results),
        "usage": usage_figure(costs, results.budget),
        "training": training_figure(epochs, results.budget),
    }
    return [save_figure(figure, folder / f"{name}.png") for name, figure in figures.items()]


def save_figure(figure: Figure, path: Path) -> Path:
    """Write a figure as PNG or SVG, without the date: the same figure is always the same file."""
    from matplotlib import rc_context  # noqa: PLC0415  # optional package

    content = io.BytesIO()
    is_svg = path.suffix == ".svg"
    with rc_context({"svg.hashsalt": "prunus"}):  # or every SVG has names of its own for the same marks
        figure.savefig(content, dpi=150, format="svg" if is_svg else "png", metadata={"Date": None} if is_svg else None)
    write_atomically(path, content.getvalue())
    return path


def accuracy_figure(results: Evaluation) -> Figure:
    """Draw every domain's accuracy as a bar, next to the feature extractor's if it was measured."""
    figure, (axes,) = new_figure(1, 7, 3.6)
    params = percent(results.params_ratio, 0)
    macs = percent(results.macs_ratio, 0)
    series = [(results, COLOURS[0], f"pruned: {params} of its parameters, {macs} of its computation")]
    if baseline := results.baselines.get(FEATURE):
        series.insert(0, (baseline, GREY, "the whole backbone, frozen features"))
    names = list(results.domains)
    positions = np.arange(len(names))
    width = 0.8 / len(series) if baseline else 0.6
    for number, (measured, colour, label) in enumerate(series):
        offset = width * (number - (len(series) - 1) / 2)
        shares = [100 * measured.accuracies[name] for name in names]
        bars = axes.bar(positions + offset, shares, width, color=colour, label=label)
        axes.bar_label(bars, fmt="%.1f", fontsize=8)
    title = f"Accuracy on {results.split} images: one pruned model for all domains"
    axes.set(xticks=positions, xticklabels=list(map(shown, names)), ylabel="accuracy (%)", ylim=(0, 108), title=title)
    figure.legend(*axes.get_legend_handles_labels(), loc="outside lower center", ncols=2, frameon=False, fontsize=8)
    return figure


def usage_figure(costs: CostReport, budget: float | None) -> Figure:
    """Draw the share of each layer's kernels used by each domain and by any domain."""
    figure, (axes,) = new_figure(1, 8, 4)
    positions = np.arange(len(costs.layers))
    union = [100 * layer.union / layer.num_kernels for layer in costs.layers]
    axes.bar(positions, union, 0.85, color="#e3e5e8", label="any domain (kept)")
    for index, domain in enumerate(costs.domains):
        shares = [100 * costs.layer_usage(layer)[domain] for layer in costs.layers]
        axes.plot(positions, shares, "o-", ms=3.5, lw=1, color=COLOURS[index % len(COLOURS)], label=shown(domain))
    if budget:
        axes.axhline(100 * budget, color="black", lw=1, ls="--", label="budget")
    axes.set(ylabel="kernels used (%)", ylim=(0, 105), title="Kernels used in each layer")
    ticks = positions if len(positions) <= 30 else positions[:: len(positions) // 20]
    axes.set_xticks(ticks, [shown(costs.layers[i].name) for i in ticks], rotation=60, ha="right", fontsize=7)
    figure.legend(*axes.get_legend_handles_labels(), loc="outside right upper", frameon=False, fontsize=8)
    return figure


def training_figure(epochs: Sequence[EpochReport], budget: float | None) -> Figure:
    """Draw accuracy and usage over the epochs."""
    figure, (left, right) = new_figure(2, 9, 3.6)
    for index, (accuracy, usage) in enumerate(zip(accuracy_curves(epochs), usage_curves(epochs), strict=True)):
        colour = COLOURS[index % len(COLOURS)]
        left.plot(accuracy.epochs, np.array(accuracy.values, float), color=colour, label=accuracy.name)
        right.plot(usage.epochs, np.array(usage.values, float), color=colour)
    union = union_curve(epochs)
    right.plot(union.epochs, np.array(union.values, float), color="black", lw=2, label=union.name)
    if budget:
        right.axhline(100 * budget, color="black", lw=1, ls="--", label="budget")
    whole_epochs(left)
    whole_epochs(right)
    left.set(xlabel="epoch", ylabel=f"{accuracy_kind(epochs)} accuracy (%)", title="Learning", ylim=(0, 102))
    right.set(xlabel="epoch", ylabel="kernels used (%)", title="Pruning", ylim=(0, 102))
    left.legend(frameon=False, fontsize=8)
    right.legend(frameon=False, fontsize=8)
    return figure


def whole_epochs(axes: Axes) -> None:
    """Label whole epochs only: all of a short run, and round numbers of a long one."""
    from matplotlib.ticker import MaxNLocator  # noqa: PLC0415  # optional package

    axes.xaxis.set_major_locator(MaxNLocator(nbins=15, integer=True, min_n_ticks=1))


def new_figure(columns: int, width: float, height: float) -> tuple[Figure, list[Axes]]:
    """Make an empty figure with panels side by side."""
    try:
        from matplotlib.figure import Figure  # noqa: PLC0415  # optional package; no pyplot, so no window system
    except ImportError:
        raise MissingExtraError("matplotlib", "report", "drawing plots") from None
    figure = Figure(figsize=(width, height), layout="constrained")
    axes = list(figure.subplots(1, columns, squeeze=False)[0])
    for panel in axes:
        panel.spines[["top", "right"]].set_visible(False)
        panel.grid(axis="y", color=RULE)
        panel.set_axisbelow(True)
    return figure, axes
