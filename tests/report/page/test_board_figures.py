"""Figures that compare runs: what they draw are the runs, and plotly knows every key."""

from pathlib import Path

import pytest

from prunus.measure.evaluation import Evaluation
from prunus.report.page.board import COSTS, make_boards
from prunus.report.page.board_figures import domains_figure, is_wide, tradeoff_figure
from prunus.report.page.run import ReportedRun
from prunus.report.page.run_figures import run_figures
from prunus.report.page.writing import read_run_and_baselines
from prunus.verbs.report import run_contents
from tests.makers.run_folders import results, write_measured_model, write_run


def test_plotly_knows_every_key_of_every_figure(tmp_path: Path) -> None:
    objects = pytest.importorskip("plotly.graph_objects", reason="needs the extra report")
    colours = pytest.importorskip("plotly.colors")
    assert colours
    folders = {"a": write_measured_model(tmp_path / "a"), "b": write_run(tmp_path / "b", _dense())}
    runs = [run for name, folder in folders.items() for run in read_run_and_baselines(folder, name, run_contents)]
    board = make_boards(runs)[0]
    figures = [tradeoff_figure(board, cost) for cost in COSTS] + [domains_figure(board)]
    figures += [plot for run in runs for plot in run_figures(run).values()]
    assert len(figures) == 3 + 6 + 2
    for figure in figures:
        objects.Figure(_without_themes(figure))  # refuses keys and values that plotly does not have


def test_the_front_and_the_points_of_the_trade_off_are_the_runs() -> None:
    costs = [(0.5, 0.3, 0.8), (0.6, 0.4, 0.7), (1.0, 1.0, 0.9)]
    runs = [
        ReportedRun(
            str(n), Evaluation.model_validate(results("union", 0.25 * (n + 1), {"a": accuracy}, (params, macs)))
        )
        for n, (params, macs, accuracy) in enumerate(costs)
    ]
    (board,) = make_boards(runs)
    traces = {trace["name"]: trace for trace in tradeoff_figure(board, "macs")["data"]}
    assert traces["Pareto front"]["x"] == pytest.approx([30, 100])
    assert sorted(traces["union"]["x"]) == pytest.approx([30, 40, 100])
    assert sorted(traces["union"]["y"]) == pytest.approx([70, 80, 90])
    assert traces["dense backbone"]["x"] == [100, 100]


def test_one_run_on_the_front_gives_no_line() -> None:
    (board,) = make_boards([ReportedRun("a", Evaluation.model_validate(results()))])
    assert [trace["name"] for trace in tradeoff_figure(board, "params")["data"]] == ["dense backbone", "union"]


@pytest.mark.parametrize(
    ("costs", "expected"), [([50, 90], False), ([10, 90], True), ([50, 300], True), ([0, 90], False)]
)
def test_an_axis_is_logarithmic_if_costs_differ_by_more_than_a_factor_of_five(
    costs: list[float], expected: bool
) -> None:
    assert is_wide(costs) == expected


def _dense() -> dict[str, object]:
    return results("feature", None, costs=(1.0, 1.0))


def _without_themes(value: object) -> object:
    if isinstance(value, dict):
        return {key: _without_themes(each) for key, each in value.items()}
    if isinstance(value, list):
        return [_without_themes(each) for each in value]
    return "#123456" if isinstance(value, str) and value.startswith("$") else value
