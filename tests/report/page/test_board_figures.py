"""Figures: plotly knows every key of them, and files for papers are drawn for all."""

import xml.etree.ElementTree as ET
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

import prunus
from prunus.measure.evaluation import Evaluation
from prunus.report.page.board import COSTS, make_boards
from prunus.report.page.board_figures import domains_figure, tradeoff_figure
from prunus.report.page.figure_files import file_names
from prunus.report.page.figure_files import tradeoff_figure as static_tradeoff
from prunus.report.page.run import ReportedRun
from prunus.report.page.run_figures import run_figures
from prunus.report.page.writing import read_run_and_baselines
from prunus.verbs.report import run_contents
from tests.makers.run_folders import HOSTILE, results, write_measured_model, write_run

SVG = "{http://www.w3.org/2000/svg}"


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
    (legend,) = static_tradeoff(board).legends
    assert [text.get_text() for text in legend.get_texts()] == ["union", "dense backbone"]


def test_figures_are_drawn_as_svg_and_png_also_with_odd_names(tmp_path: Path) -> None:
    odd = {"$\\frac{": 0.5, HOSTILE: 0.6}
    write_run(tmp_path / "runs" / "b", results(accuracies=odd))
    write_measured_model(tmp_path / "runs" / "a")
    written = prunus.write_report(tmp_path / "runs", tmp_path / "r.html", tmp_path / "x").figures
    again = prunus.write_report(tmp_path / "runs" / "b", tmp_path / "r.html", tmp_path / "y").figures
    names = {path.stem for path in written}
    shared = {"tradeoff-1", "tradeoff-2", "domains-1", "domains-2", "a-training", "b-training"}
    assert names == shared | {"a-usage", "a-sharing", "a-latency"}
    same = [path for path in again if path.stem == "b-training"]
    assert len(same) == 2
    assert all((tmp_path / "x" / path.name).read_bytes() == path.read_bytes() for path in same)
    for path in written:
        if path.suffix == ".svg":
            texts = [text.text for text in ET.parse(path).iter(f"{SVG}text")]
            assert texts
            assert path.stem != "domains-2" or set(odd) <= set(texts)
        else:
            assert np.asarray(Image.open(path).convert("L")).std() > 5


def test_runs_whose_names_become_the_same_file_name_are_numbered(tmp_path: Path) -> None:
    assert file_names(["a b", "a/b", "A-b", "a-b-2", "c"]) == ["a-b", "a-b-2", "A-b-3", "a-b-2-2", "c"]
    for name in ("a b", "a+b"):
        write_run(tmp_path / "runs" / name, results("feature", None))
    written = prunus.write_report(tmp_path / "runs", tmp_path / "r.html", tmp_path / "x").figures
    assert {"a-b-training.svg", "a-b-2-training.svg"} <= {path.name for path in written}
    assert len(set(written)) == len(written) == len(list((tmp_path / "x").iterdir()))


def _dense() -> dict[str, object]:
    return results("feature", None, costs=(1.0, 1.0))


def _without_themes(value: object) -> object:
    if isinstance(value, dict):
        return {key: _without_themes(each) for key, each in value.items()}
    if isinstance(value, list):
        return [_without_themes(each) for each in value]
    return "#123456" if isinstance(value, str) and value.startswith("$") else value
