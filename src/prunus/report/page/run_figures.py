"""Figures of one run: training curves and latency."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from prunus.amounts import plural
from prunus.measure.speed import Benchmark
from prunus.report.page.run import OURS, ReportedRun
from prunus.report.page.svg import WIDTH, Drawing, short
from prunus.report.plots import COLOURS, GREY, INK, new_figure, whole_epochs
from prunus.report.speed import speed_name
from prunus.report.training_curves import Curve, accuracy_curves, accuracy_kind, union_curve, usage_curves
from prunus.run_folder import EpochReport

if TYPE_CHECKING:
    from matplotlib.axes import Axes

MOST_MARKED = 20  # epochs that get a marker each
STYLES = ("-", "-.")  # of lines: another one where the colours begin again


def run_figures(run: ReportedRun) -> dict[str, Drawing]:
    """Draw what is known of a run, by name."""
    figures: dict[str, Drawing] = {}
    if run.epochs:
        figures["learning"] = learning_figure(run.epochs)
        figures["pruning"] = pruning_figure(run.epochs, run.results.budget)
    if run.bench:
        counts = dict.fromkeys(speed.threads for speed in run.bench.speeds)
        figures |= {f"latency-{count}": latency_figure(run.bench, count) for count in counts}
    return figures


def learning_figure(epochs: Sequence[EpochReport]) -> Drawing:
    """Draw every domain's accuracy over the epochs, on validation images if there are any."""
    return _curves(accuracy_curves(epochs), f"{accuracy_kind(epochs)} accuracy, %")


def pruning_figure(epochs: Sequence[EpochReport], budget: float | None) -> Drawing:
    """Draw the usage of each domain and of any domain over the epochs, and the budget."""
    drawing = _curves(usage_curves(epochs), "kernels used, %")
    (axes,) = drawing.figure.axes
    _line(drawing, axes, union_curve(epochs), INK)
    if budget is not None:
        axes.axhline(100 * budget, color=GREY, lw=1.5, ls="--", label="budget")
    drawing.add_keys(axes)
    _begin_at_zero(axes)
    return drawing


def latency_figure(bench: Benchmark, threads: int) -> Drawing:
    """Draw every engine's latency as a bar, Prunus in colour."""
    speeds = [speed for speed in bench.speeds if speed.threads == threads]
    figure, (axes,) = new_figure(1, WIDTH, 0.7 + 0.24 * len(speeds))
    drawing = Drawing(figure)
    shades = [COLOURS[0] if speed.engine == OURS else GREY for speed in speeds]
    times = [speed.latency.median_ms for speed in speeds]
    bars = axes.barh(range(len(speeds)), times, 0.75, color=shades)
    axes.bar_label(bars, fmt="%.3g", padding=3, fontsize=9)
    for bar, speed in zip(bars, speeds, strict=True):
        drawing.note(
            bar,
            f"{speed_name(speed)}\nmedian {speed.latency.median_ms:.3g} ms, 95th percentile "
            f"{speed.latency.p95_ms:.3g} ms\n{speed.images_per_second:,.0f} images per second in batches of "
            f"{bench.batch}",
        )
    axes.set_yticks(range(len(speeds)), [short(speed_name(speed), 28) for speed in speeds])
    axes.tick_params(axis="y", length=0)
    axes.invert_yaxis()
    axes.grid(False)
    axes.margins(x=0.14)
    axes.set_xlabel(f"milliseconds for one image, {plural(threads, 'thread')}")
    return drawing


def _curves(curves: Sequence[Curve], title: str) -> Drawing:
    figure, (axes,) = new_figure(1, WIDTH, 3.4)
    drawing = Drawing(figure)
    for number, curve in enumerate(curves):
        _line(drawing, axes, curve, COLOURS[number % len(COLOURS)], STYLES[number // len(COLOURS) % len(STYLES)])
    whole_epochs(axes)
    axes.set(xlabel="epoch", ylabel=title)
    drawing.add_keys(axes)
    _begin_at_zero(axes)
    return drawing


def _begin_at_zero(axes: Axes) -> None:
    axes.set_ylim(0, 1.05 * axes.dataLim.ymax or 1)


def _line(drawing: Drawing, axes: Axes, curve: Curve, shade: str, style: str = "-") -> None:
    values = [float("nan") if value is None else value for value in curve.values]
    marker = "o" if len(values) <= MOST_MARKED else ""
    (line,) = axes.plot(curve.epochs, values, color=shade, ls=style, lw=1.8, marker=marker, ms=4, label=curve.name)
    known = [value for value in curve.values if value is not None]
    if known:
        drawing.note(
            line, f"{curve.name}: {known[-1]:.1f} % after epoch {curve.epochs[-1]}, at most {max(known):.1f} %"
        )
