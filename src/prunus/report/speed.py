"""Plot the latency of a model file next to that of the dense network."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from prunus.amounts import plural
from prunus.measure.speed import Benchmark, Speed, engine_title
from prunus.names import shown
from prunus.report.plots import COLOURS, GREY, new_figure, save_figure

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# files of earlier versions say "ONNX baked"
PALE = "#c9a3ba"
COLOUR_OF = {"Prunus": COLOURS[0], "ONNX pruned": PALE, "ONNX baked": PALE}


def write_speed_plot(path: Path, benchmark: Benchmark) -> None:
    """Write the latencies as a PNG file."""
    save_figure(speed_figure(benchmark), path)


def speed_figure(benchmark: Benchmark) -> Figure:
    """Draw every engine's latency as a bar, one panel per number of threads; dense networks are grey."""
    speeds_by_threads: dict[int, list[Speed]] = {}
    for speed in benchmark.speeds:
        speeds_by_threads.setdefault(speed.threads, []).append(speed)
    panels_wide = len(speeds_by_threads)
    bars_high = max(map(len, speeds_by_threads.values()))
    figure, panels = new_figure(panels_wide, 4.6 * panels_wide + 1, 0.32 * bars_high + 1.1)
    for axes, (threads, speeds) in zip(panels, speeds_by_threads.items(), strict=True):
        colours = [COLOUR_OF.get(speed.engine, GREY) for speed in speeds]
        times = [speed.latency.median_ms for speed in speeds]
        bars = axes.barh([speed_name(speed) for speed in speeds], times, color=colours)
        axes.bar_label(bars, fmt="%.3g", padding=3, fontsize=8)
        axes.invert_yaxis()
        axes.grid(False)
        axes.margins(x=0.12)
        axes.set(xlabel="milliseconds for one image", title=plural(threads, "thread"))
        axes.tick_params(axis="y", labelsize=8)
    engine = f"; Prunus on {benchmark.prunus_engine}" if benchmark.prunus_engine else ""
    figure.suptitle(shown(f"{benchmark.model}: {benchmark.machine}{engine}"), fontsize=9)
    return figure


def speed_name(speed: Speed) -> str:
    """Name an engine, and its domain if it has one."""
    title = engine_title(speed.engine)
    return shown(f"{title}, {speed.domain}" if speed.domain else title)
