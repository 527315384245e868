"""Figures as files: SVG and PNG of every figure, with any name, always the same bytes."""

import xml.etree.ElementTree as ET
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

import prunus
from prunus.measure.evaluation import Evaluation
from prunus.report.page.board import make_boards
from prunus.report.page.figure_files import file_names, tradeoff_figure
from prunus.report.page.run import ReportedRun
from tests.makers.run_folders import HOSTILE, results, write_measured_model, write_run

SVG = "{http://www.w3.org/2000/svg}"


def test_one_run_on_the_front_makes_no_line() -> None:
    (board,) = make_boards([ReportedRun("a", Evaluation.model_validate(results()))])
    (legend,) = tradeoff_figure(board).legends
    assert [text.get_text() for text in legend.get_texts()] == ["union", "dense backbone"]


@pytest.mark.slow
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


def test_names_that_become_the_same_file_name_are_numbered() -> None:
    assert file_names(["a b", "a/b", "A-b", "a-b-2", "c"]) == ["a-b", "a-b-2", "A-b-3", "a-b-2-2", "c"]


@pytest.mark.slow
def test_runs_whose_names_become_the_same_file_name_are_numbered(tmp_path: Path) -> None:
    for name in ("a b", "a+b"):
        write_run(tmp_path / "runs" / name, results("feature", None))
    written = prunus.write_report(tmp_path / "runs", tmp_path / "r.html", tmp_path / "x").figures
    assert {"a-b-training.svg", "a-b-2-training.svg"} <= {path.name for path in written}
    assert len(set(written)) == len(written) == len(list((tmp_path / "x").iterdir()))
