"""Predictions as CSV, JSON lines and JSON can be read back."""

import csv
import io
import json
from pathlib import Path

import pytest

from prunus.cli.prediction_formats import FORMATS, choose_format
from prunus.runtime.image_files import FileResult
from prunus.runtime.predictor import Prediction, Result

FILES = [
    FileResult(Path('a "b",\x1b.png'), "birds", Result("birds", (Prediction("owl", 0.75), Prediction("wren", 0.25)))),
    FileResult(Path("b.png"), "flowers", Result("flowers", (Prediction("rose", 1.0),))),
    FileResult(Path("c.png"), "birds", None, "cannot read c.png"),
]


@pytest.mark.parametrize("name", ["json", "jsonl"])
def test_json_holds_every_prediction_and_error(name: str) -> None:
    text = FORMATS[name](FILES)
    assert "\x1b" not in text
    rows = json.loads(text) if name == "json" else [json.loads(line) for line in text.splitlines()]
    assert rows[0] == {
        "image": 'a "b",\x1b.png',
        "domain": "birds",
        "predictions": [{"label": "owl", "probability": 0.75}, {"label": "wren", "probability": 0.25}],
    }
    assert rows[2] == {"image": "c.png", "domain": "birds", "error": "cannot read c.png"}


def test_csv_rows_have_the_same_columns() -> None:
    rows = list(csv.reader(io.StringIO(FORMATS["csv"](FILES))))
    assert rows == [
        ["image", "domain", "label", "probability", "label_2", "probability_2", "error"],
        ['a "b",\x1b.png', "birds", "owl", "0.750000", "wren", "0.250000", ""],
        ["b.png", "flowers", "rose", "1.000000", "", "", ""],
        ["c.png", "birds", "", "", "", "", "cannot read c.png"],
    ]


@pytest.mark.parametrize(
    ("name", "out", "as_json", "expected"),
    [
        (None, None, False, "table"),
        (None, None, True, "json"),
        (None, "x.CSV", False, "csv"),
        ("jsonl", "x.txt", False, "jsonl"),
        (None, "x.jsonl", True, "json"),
    ],
)
def test_the_format_is_named_or_that_of_the_file(
    name: str | None, out: str | None, as_json: bool, expected: str
) -> None:
    assert choose_format(name, Path(out) if out else None, as_json) == expected
