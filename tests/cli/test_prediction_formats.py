"""Predictions as CSV, JSON lines and JSON can be read back."""

import csv
import io
import json
from pathlib import Path

import pytest
from rich.console import Console

from prunus.cli.prediction_formats import FORMATS, choose_format, tables
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


def _printed(*images: tuple[str, str, str], width: int = 80) -> list[str]:
    files = [
        FileResult(Path(path), domain, Result(domain, (Prediction(label, 0.5),))) for path, domain, label in images
    ]
    console = Console(width=width, file=io.StringIO(), record=True)
    console.print(*tables(files))
    return console.export_text().splitlines()


def test_many_images_share_their_folder_and_domain_in_the_title_and_classes_stay_whole() -> None:
    folder = "My Pictures/My Flowers (2024)/Giant White Arum Lily"
    lines = _printed(*((f"{folder}/{number:05}.jpg", "My-Flowers", "Pincushion Flower") for number in range(5)))
    assert lines[0] == f"5 images in {folder} (My-Flowers)"
    assert "│ 00004.jpg │ Pincushion Flower │      50.0 % │" in lines
    assert len(lines) == 5 + 5


def test_in_a_narrow_terminal_paths_break_before_domains_and_classes_do() -> None:
    names = [("Pictures/birds/a/long/name/of/some/kind.jpg", "Textures-Grossen", "a bird of paradise, 24")] * 5
    lines = _printed(*names, ("rose.jpg", "flowers", "rose"))
    assert lines[0] == "6 images"
    assert sum("│ Textures-Grossen │ a bird of paradise, 24 │" in line for line in lines) == 5
    assert max(map(len, lines)) <= 80
    assert _printed(*names, ("/elsewhere/rose.jpg", "flowers", "rose"))[0] == "6 images"
