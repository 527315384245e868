"""A picture of how fast a model file runs beside the dense network."""

from __future__ import annotations

import io
from pathlib import Path
from typing import TYPE_CHECKING

from prunus.files import write_atomically
from prunus.measure.speed import Benchmark
from prunus.report.plots import COLOURS, GREY, new_figure

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def write_speed_plot(path: Path, benchmark: Benchmark) -> None:
    """Draw latencies as bars, one panel per number of threads."""
    content = io.BytesIO()
    speed_figure(benchmark).savefig(content, dpi=150, format="png")
    write_atomically(path, content.getvalue())


def speed_figure(benchmark: Benchmark) -> Figure:
    """Draw every engine's latency; ours in colour, dense networks in grey."""
    counts = list(dict.fromkeys(each.threads for each in benchmark.speeds))
    rows = sum(each.threads == counts[0] for each in benchmark.speeds)
    figure, panels = new_figure(len(counts), 4.6 * len(counts) + 1, 0.32 * rows + 1.1)
    for axes, count in zip(panels, counts, strict=True):
        speeds = [each for each in benchmark.speeds if each.threads == count]
        names = [f"{each.engine}, {each.domain}" if each.domain else each.engine for each in speeds]
        colours = [_colour(each.engine) for each in speeds]
        bars = axes.barh(names, [each.latency.median_ms for each in speeds], color=colours)
        axes.bar_label(bars, fmt="%.3g", padding=3, fontsize=8)
        axes.invert_yaxis()
        axes.grid(False)
        axes.margins(x=0.12)
        axes.set(xlabel="milliseconds for one image", title=f"{count} thread{'s' if count > 1 else ''}")
        axes.tick_params(axis="y", labelsize=8)
    engine = f"; Prunus on {benchmark.prunus_engine}" if benchmark.prunus_engine else ""
    figure.suptitle(f"{benchmark.model}: {benchmark.machine}{engine}", fontsize=9)
    return figure


def _colour(engine: str) -> str:
    table = {"Prunus": COLOURS[0], "ONNX pruned": COLOURS[7], "ONNX baked": COLOURS[7]}  # the last is in earlier files
    return table.get(engine, GREY)
