"""Three pictures of a run: how right, how much of each layer, how it was learned."""

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
from prunus.run_folder import EpochReport

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

GREY = "#9aa0a6"
COLOURS = ("#4269d0", "#efb118", "#ff725c", "#6cc5b0", "#3ca951", "#ff8ab7", "#a463f2", "#97bbf5", "#9c6b4e", "#9498a0")


def write_plots(folder: Path, results: Evaluation, costs: CostReport, epochs: Sequence[EpochReport]) -> list[Path]:
    """Draw all plots of a run as PNG files."""
    figures = {
        "accuracy": accuracy_figure(results),
        "usage": usage_figure(costs, results.budget),
        "training": training_figure(epochs, results.budget),
    }
    paths = []
    for name, figure in figures.items():
        paths.append(folder / f"{name}.png")
        content = io.BytesIO()
        figure.savefig(content, dpi=150)
        write_atomically(paths[-1], content.getvalue())
    return paths


def accuracy_figure(results: Evaluation) -> Figure:
    """Draw every domain's accuracy as bars, the feature extractor's beside it where there is one."""
    figure, (axes,) = new_figure(1, 7, 3.6)
    names = list(results.domains)
    baseline = results.baselines.get("feature")
    places = np.arange(len(names))
    width = 0.4 if baseline else 0.6
    ours = [100 * results.domains[name].accuracy for name in names]
    if baseline:
        theirs = [100 * baseline.domains[name].accuracy for name in names]
        axes.bar_label(
            axes.bar(places - width / 2, theirs, width, color=GREY, label="the whole backbone, frozen features"),
            fmt="%.0f",
            fontsize=8,
        )
    params, macs = 100 * results.params_ratio, 100 * results.macs_ratio
    label = f"pruned: {params:.0f} % of its parameters, {macs:.0f} % of its computation"
    bars = axes.bar(places + (width / 2 if baseline else 0), ours, width, color=COLOURS[0], label=label)
    axes.bar_label(bars, fmt="%.0f", fontsize=8)
    axes.set(
        xticks=places,
        xticklabels=names,
        ylabel="accuracy (%)",
        ylim=(0, 108),
        title="One small model, all domains: accuracy on test images",
    )
    figure.legend(*axes.get_legend_handles_labels(), loc="outside lower center", ncols=2, frameon=False, fontsize=8)
    return figure


def usage_figure(costs: CostReport, budget: float | None) -> Figure:
    """Draw the share of each layer's kernels that each domain uses, and that any domain uses."""
    figure, (axes,) = new_figure(1, 8, 4)
    places = np.arange(len(costs.layers))
    union = [100 * layer.union / layer.num_kernels for layer in costs.layers]
    axes.bar(places, union, 0.85, color="#e3e5e8", label="any domain (kept)")
    for index, domain in enumerate(costs.domains):
        shares = [100 * layer.used[index] / layer.num_kernels for layer in costs.layers]
        axes.plot(places, shares, "o-", ms=3.5, lw=1, color=COLOURS[index % len(COLOURS)], label=domain)
    if budget:
        axes.axhline(100 * budget, color="black", lw=1, ls="--", label="budget")
    axes.set(ylabel="kernels used (%)", ylim=(0, 105), title="What is used of each layer")
    shown = places if len(places) <= 30 else places[:: len(places) // 20]
    axes.set_xticks(shown, [costs.layers[i].name for i in shown], rotation=60, ha="right", fontsize=7)
    figure.legend(*axes.get_legend_handles_labels(), loc="outside right upper", frameon=False, fontsize=8)
    return figure


def training_figure(epochs: Sequence[EpochReport], budget: float | None) -> Figure:
    """Draw accuracy and usage over the epochs."""
    figure, (left, right) = new_figure(2, 9, 3.6)
    names = list(dict.fromkeys(name for epoch in epochs for name in epoch.domains))
    held_out = any(entry.validation_accuracy is not None for epoch in epochs for entry in epoch.domains.values())
    curve = "validation_accuracy" if held_out else "train_accuracy"
    for index, name in enumerate(names):
        own = [epoch for epoch in epochs if name in epoch.domains]
        colour = COLOURS[index % len(COLOURS)]
        places = [epoch.epoch + 1 for epoch in own]
        left.plot(places, [100 * getattr(epoch.domains[name], curve) for epoch in own], color=colour, label=name)
        right.plot(places, [100 * epoch.domains[name].usage for epoch in own], color=colour)
    right.plot([e.epoch + 1 for e in epochs], [100 * e.union for e in epochs], color="black", lw=2, label="any domain")
    if budget:
        right.axhline(100 * budget, color="black", lw=1, ls="--", label="budget")
    left.set(xlabel="epoch", ylabel=curve.replace("_", " ") + " (%)", title="Learning", ylim=(0, 102))
    right.set(xlabel="epoch", ylabel="kernels used (%)", title="Pruning", ylim=(0, 102))
    left.legend(frameon=False, fontsize=8)
    right.legend(frameon=False, fontsize=8)
    return figure


def new_figure(columns: int, width: float, height: float) -> tuple[Figure, list[Axes]]:
    """Make an empty figure with some panels beside each other."""
    try:
        from matplotlib.figure import Figure  # noqa: PLC0415  # optional package; no pyplot, so no window system
    except ImportError:
        raise MissingExtraError("matplotlib", "train", "drawing plots") from None
    figure = Figure(figsize=(width, height), layout="constrained")
    axes = list(figure.subplots(1, columns, squeeze=False)[0])
    for each in axes:
        each.spines[["top", "right"]].set_visible(False)
        each.grid(axis="y", color="#eeeeee")
        each.set_axisbelow(True)
    return figure, axes
