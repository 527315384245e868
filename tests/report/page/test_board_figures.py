"""Figures that compare runs: what they draw are the runs."""

import numpy as np
import pytest
from matplotlib.patches import Rectangle

from prunus.measure.evaluation import Evaluation
from prunus.report.page.board import Board, make_boards
from prunus.report.page.board_figures import board_figures, is_wide, tradeoff_figure
from prunus.report.page.run import ReportedRun
from prunus.report.page.svg import Drawing, drawing_settings
from prunus.report.plots import COLOURS, GREY
from tests.makers.run_folders import results


def _board(costs: list[tuple[float, float, float]]) -> Board:
    """Runs with these costs of parameters and MACs, and these accuracies."""
    runs = [
        ReportedRun(
            str(n), Evaluation.model_validate(results("union", 0.25 * (n + 1), {"a": accuracy}, (params, macs)))
        )
        for n, (params, macs, accuracy) in enumerate(costs)
    ]
    (board,) = make_boards(runs)
    return board


def _points(drawing: Drawing, label: str) -> list[list[float]]:
    (axes,) = drawing.figure.axes
    lines = [line for line in axes.lines if line.get_label() == label]
    return [point for line in lines for point in np.asarray(line.get_xydata()).tolist()]


def test_the_front_and_the_points_of_the_trade_off_are_the_runs() -> None:
    board = _board([(0.5, 0.3, 0.8), (0.6, 0.4, 0.7), (1.0, 1.0, 0.9)])
    drawing = tradeoff_figure(board, "macs")
    assert [x for x, _ in _points(drawing, "Pareto front")] == pytest.approx([30, 100])
    expected = [[30, 80], [40, 70], [100, 90]]
    assert sorted(_points(drawing, "union")) == [pytest.approx(point) for point in expected]
    assert [x for x, _ in _points(drawing, "dense backbone")] == [100, 100]


def test_one_run_on_the_front_gives_no_line() -> None:
    keys = tradeoff_figure(_board([(0.5, 0.4, 0.8)]), "params").keys
    assert [(key.name, key.mark) for key in keys] == [("union", "circle"), ("dense backbone", "dashes")]


def test_points_are_named_by_what_the_legend_does_not_say_in_the_colour_of_their_series() -> None:
    runs = [
        ReportedRun("f", Evaluation.model_validate(results("feature", None, {"a": 0.5}, (1.0, 1.0)))),
        ReportedRun("t", Evaluation.model_validate(results("finetune", None, {"a": 0.9}, (2.0, 1.0)))),
        ReportedRun("u", Evaluation.model_validate(results("union", 0.25, {"a": 0.6}, (0.3, 0.3)))),
        ReportedRun("b", Evaluation.model_validate(results("ba2", 0.5, {"a": 0.8}, (0.6, 0.6)))),
    ]
    (board,) = make_boards(runs)
    (axes,) = tradeoff_figure(board, "params").figure.axes
    assert {text.get_text(): text.get_color() for text in axes.texts} == {
        "finetune": GREY,
        "β=0.5": COLOURS[0],
        "β=0.25": COLOURS[1],
    }


def test_runs_of_different_series_with_the_same_accuracy_do_not_hide_each_other() -> None:
    methods = ("bn", "ba2", "union", "jaccard")
    evaluations = [results(method, None if method == "bn" else 0.5, {"a": 0.8, "b": 0.7}) for method in methods]
    (board,) = make_boards([ReportedRun(r["method"], Evaluation.model_validate(r)) for r in evaluations])
    (axes,) = board_figures(board)["domains"].figure.axes
    points = [np.asarray(line.get_xydata()).tolist() for line in axes.lines]
    rows = sorted(place[0][1] for place in points if len(place) == 1 and place[0][0] == pytest.approx(80))
    assert len(rows) == 4
    assert min(np.diff(rows)) > 0.1
    assert all(abs(row) < 0.5 for row in rows)  # inside the row of their domain


@pytest.mark.parametrize(
    ("count", "expected"),
    [(1, ["summary", "domains"]), (3, ["summary", "domains"]), (4, ["params", "macs", "domains"])],
)
def test_fewer_than_four_runs_are_bars_and_more_are_points(count: int, expected: list[str]) -> None:
    board = _board([(0.1 * (n + 1), 0.2, 0.9) for n in range(count)])
    figures = board_figures(board)
    assert list(figures) == expected
    bars = [len(drawing.figure.axes[0].patches) for drawing in figures.values()]
    assert bars == ([3 * count, count] if count < 4 else [0, 0, 0])


def test_bars_are_as_long_as_the_numbers_of_the_runs_and_lead_to_them() -> None:
    board = _board([(0.5, 0.3, 0.8), (0.6, 0.4, 0.7)])
    drawing = board_figures(board)["summary"]
    bars = drawing.figure.axes[0].patches
    rows = [(100 * e.row.mean_accuracy, 100 * e.row.params_ratio, 100 * e.row.macs_ratio) for e in board.entries]
    assert [bar.get_width() for bar in bars if isinstance(bar, Rectangle)] == pytest.approx(
        [value for row in rows for value in row]
    )
    assert [bar.get_url() for bar in bars] == [f"#{entry.anchor}" for entry in board.entries for _ in range(3)]
    assert [key.name for key in drawing.keys] == [entry.label for entry in board.entries]
    with drawing_settings():
        assert drawing.svg("x").count(f'href="#{board.entries[0].anchor}"') == 3


@pytest.mark.parametrize(
    ("costs", "expected"), [([50, 90], False), ([10, 90], True), ([50, 300], True), ([0, 90], False)]
)
def test_an_axis_is_logarithmic_if_costs_differ_by_more_than_a_factor_of_five(
    costs: list[float], expected: bool
) -> None:
    assert is_wide(costs) == expected
