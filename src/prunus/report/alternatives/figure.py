"""The plot of `prunus versus`: accuracy against bytes and against milliseconds."""

from __future__ import annotations

from typing import TYPE_CHECKING

from prunus.measure.alternatives.results import Versus
from prunus.measure.alternatives.verdicts import Summary, summarize
from prunus.names import shown
from prunus.report.pareto import DARK, FONT_SIZE, SPACE, Label, Style, box_of_point, boxes_of_line, place_labels
from prunus.report.plots import new_figure

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

COSTS = {  # what accuracy is drawn against -> factor and title
    "total_bytes": (1e-6, "size of all files for all domains (MB)"),
    "milliseconds": (1.0, "time of one image, one thread (ms)"),
}


def versus_figure(versus: Versus) -> Figure:
    """Draw every alternative with its standard error, against bytes and against milliseconds."""
    summaries = summarize(versus)
    figure, panels = new_figure(len(COSTS), 10, 4.2)
    styles = [Style.number(0 if summary.is_ours else index + 1) for index, summary in enumerate(summaries)]
    for axes, (cost, (factor, title)) in zip(panels, COSTS.items(), strict=True):
        for summary, style in zip(summaries, styles, strict=True):
            x, y = _point(summary, cost, factor)
            axes.errorbar(x, y, 100 * summary.error, fmt=style.marker, ms=6, lw=1, color=style.colour)
        _use_log_scale(axes)
        axes.margins(2 * SPACE, SPACE)
        axes.set(xlabel=title, ylabel=f"mean accuracy on {versus.split} images (%)")
    number = len(versus.images)
    title = f"{versus.backbone}, {number} domain{'' if number == 1 else 's'}; bars: ± standard error"
    figure.suptitle(shown(title), fontsize=10)
    figure.draw_without_rendering()  # computes the layout, which says where there is room for labels
    for axes, (cost, (factor, _)) in zip(panels, COSTS.items(), strict=True):
        points = [_point(summary, cost, factor) for summary in summaries]
        labels = [Label(summary.name, point, DARK) for summary, point in zip(summaries, points, strict=True)]
        bars = [
            box
            for summary, (x, y) in zip(summaries, points, strict=True)
            for box in boxes_of_line(axes, [(x, y - 100 * summary.error), (x, y + 100 * summary.error)])
        ]
        place_labels(axes, labels, [*(box_of_point(axes, point) for point in points), *bars], FONT_SIZE)
    return figure


def _use_log_scale(axes: Axes) -> None:
    """Scale the costs by logarithms, with plain numbers at 1, 2 and 5 times the powers of ten."""
    from matplotlib.ticker import LogLocator, NullLocator, StrMethodFormatter  # noqa: PLC0415  # optional package

    axes.set_xscale("log")
    axes.xaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
    axes.xaxis.set_major_formatter(StrMethodFormatter("{x:g}"))
    axes.xaxis.set_minor_locator(NullLocator())


def _point(summary: Summary, cost: str, factor: float) -> tuple[float, float]:
    return factor * getattr(summary, cost), 100 * summary.mean_accuracy
