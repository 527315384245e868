"""Tables and JSON as commands print them."""

import json
from pathlib import Path

import pytest
from rich.console import Console

from prunus.cli.output import make_table, print_json
from prunus.measure.evaluation import Evaluation
from prunus.runtime.predictor import Prediction
from tests.makers.run_folders import results


def test_models_are_printed_as_they_dump_themselves(capsys: pytest.CaptureFixture[str]) -> None:
    evaluation = Evaluation.model_validate(results())
    print_json(evaluation)
    printed = json.loads(capsys.readouterr().out)
    assert printed == evaluation.model_dump(mode="json")
    assert "baselines" not in printed


def test_dataclasses_paths_and_tuples_are_plain_json_too(capsys: pytest.CaptureFixture[str]) -> None:
    print_json([{"image": Path("rösli.jpg"), "predictions": (Prediction("rose", 0.5),)}])
    text = capsys.readouterr().out
    assert "rösli.jpg" in text
    assert json.loads(text) == [{"image": "rösli.jpg", "predictions": [{"label": "rose", "probability": 0.5}]}]


@pytest.mark.parametrize("gap", [None, 1])
def test_numbers_are_aligned_right_and_names_left(gap: int | None) -> None:
    table = make_table(("name", "count", "kind"), "things", left=("kind",), gap=gap)
    assert [column.justify for column in table.columns] == ["left", "right", "left"]
    assert table.title == "things"
    table.add_row("a", "1", "b")
    console = Console(width=40)
    with console.capture() as capture:
        console.print(table)
    assert ("│" in capture.get()) == (gap is None)
