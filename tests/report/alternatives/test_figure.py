"""The plot of `prunus versus` shows every alternative twice: against bytes and against milliseconds."""

import numpy as np

from prunus.report.alternatives.figure import versus_figure
from tests.makers.versus_results import RESULTS


def test_the_plot_has_a_panel_for_bytes_and_one_for_time() -> None:
    left, right = versus_figure(RESULTS).axes
    assert "MB" in left.get_xlabel()
    assert "ms" in right.get_xlabel()
    points = {tuple(np.round(np.ravel(line.get_xydata()), 3)[:2].tolist()) for line in left.lines}
    assert {(5.0, 80.0), (0.7, 50.0), (0.8, 81.0), (0.2, 60.0)} <= points
    assert {text.get_text() for text in left.texts} == {"lora", "probe", "ours", "ours_int8"}


def test_costs_have_plain_numbers() -> None:
    figure = versus_figure(RESULTS)
    figure.draw_without_rendering()
    left, _ = figure.axes
    assert {"0.2", "0.5", "1", "2", "5"} <= {label.get_text() for label in left.get_xticklabels()}
