"""Figures of one run: they draw the numbers of its layers, its log and its timings."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from matplotlib.colors import to_hex
from matplotlib.patches import Rectangle

from prunus.report.page.reading import read_run
from prunus.report.page.run import ReportedRun
from prunus.report.page.run_figures import learning_figure, run_figures
from prunus.report.page.svg import Drawing
from prunus.report.page.writing import read_run_and_baselines
from prunus.report.plots import COLOURS, GREY, training_figure
from prunus.verbs.report import run_contents
from tests.makers.run_folders import results, write_measured_model, write_run


@pytest.fixture
def run(tmp_path: Path) -> ReportedRun:
    """A run with a model file, a log of three epochs and timings for one and two threads."""
    (run,) = read_run_and_baselines(write_measured_model(tmp_path / "a"), "a", run_contents)
    return run


def _curves(drawing: Drawing) -> dict[str, list[list[float]]]:
    (axes,) = drawing.figure.axes
    return {str(line.get_label()): np.asarray(line.get_xydata()).T.tolist() for line in axes.lines}


def test_everything_that_is_known_of_a_run_is_drawn(run: ReportedRun) -> None:
    assert list(run_figures(run)) == ["learning", "pruning", "latency-1", "latency-2"]


def test_a_run_with_nothing_but_results_has_no_figures(tmp_path: Path) -> None:
    folder = write_run(tmp_path / "a", results("feature", None))
    (folder / "log.jsonl").unlink()
    assert run_figures(read_run(folder, "a")) == {}


def test_curves_follow_the_log(run: ReportedRun) -> None:
    figures = run_figures(run)
    learning, pruning = _curves(figures["learning"]), _curves(figures["pruning"])
    assert learning["birds"][0] == [1, 2, 3]
    assert learning["birds"][1] == pytest.approx([0, 30, 60])
    assert figures["learning"].figure.axes[0].get_ylabel() == "training accuracy, %"
    assert pruning["flowers"][1] == pytest.approx([100, 80, 60])
    assert pruning["any domain"][1] == pytest.approx([90, 90, 90])
    assert pruning["budget"][1] == pytest.approx([50, 50])
    assert [key.name for key in figures["pruning"].keys] == ["birds", "flowers", "any domain", "budget"]
    low, high = figures["pruning"].figure.axes[0].get_ylim()
    assert low == 0
    assert high > 100


def test_the_curves_of_more_domains_than_colours_differ(run: ReportedRun) -> None:
    progress = run.epochs[0].domains["birds"]
    epoch = replace(run.epochs[0], domains={f"domain {number}": progress for number in range(12)})
    drawing = learning_figure([epoch])
    lines = drawing.figure.axes[0].lines
    assert len({(line.get_color(), line.get_linestyle()) for line in lines}) == 12
    assert len({(key.shade, key.mark) for key in drawing.keys}) == 12


@pytest.mark.parametrize("count", [1, 2, 3, 7, 12, 30, 240])
def test_only_whole_epochs_have_ticks_and_each_of_a_short_run(run: ReportedRun, count: int) -> None:
    epochs = [replace(run.epochs[0], epoch=number) for number in range(count)]
    for figure in (learning_figure(epochs).figure, training_figure(epochs, None)):
        for axes in figure.axes:
            low, high = axes.get_xlim()
            ticks = [tick for tick in axes.get_xticks().tolist() if low <= tick <= high]
            assert all(tick == int(tick) for tick in ticks)
            assert len(set(ticks)) == len(ticks) > 0
            assert set(range(1, count + 1)) <= set(ticks) or count > 12
            assert len(ticks) <= 16


def test_bars_are_the_median_latencies_of_one_thread_count(run: ReportedRun) -> None:
    (axes,) = run_figures(run)["latency-2"].figure.axes
    names = [label.get_text() for label in axes.get_yticklabels()]
    assert names == ["Prunus, birds", "Prunus, flowers", "PyTorch dense"]
    assert [bar.get_width() for bar in axes.patches if isinstance(bar, Rectangle)] == [0.25, 0.35, 2.0]
    assert [to_hex(bar.get_facecolor()) for bar in axes.patches] == [COLOURS[0], COLOURS[0], GREY]
