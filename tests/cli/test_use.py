"""`prunus predict`, `prunus serve`, `prunus card` and `prunus export`: what they print and pass on."""

import csv
import json
import re
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image
from typer.testing import CliRunner, Result

from prunus.bundle.file import write_bundle
from prunus.cli.app import app
from prunus.errors import PrunusError, RecipeError
from prunus.runtime.predictor import Predictor
from tests.makers.graph_bundles import random_bundle, varied_graph


@pytest.fixture
def model(tmp_path: Path) -> Path:
    path = tmp_path / "model.prunus"
    write_bundle(path, random_bundle(varied_graph(0), 12, ("birds", "flowers")))
    return path


@pytest.fixture
def image(tmp_path: Path) -> Path:
    path = tmp_path / "image.png"
    Image.fromarray(np.random.default_rng(0).integers(0, 256, (16, 16, 3), np.uint8)).save(path)
    return path


def test_predictions_are_a_table_per_image_or_json(model: Path, image: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(image.parent)
    call = ["predict", str(model), image.name, image.name, "--domain", "birds", "--top", "1"]
    rows = json.loads(CliRunner().invoke(app, [*call, "--json"]).stdout)
    assert [(row["image"], row["domain"], len(row["predictions"])) for row in rows] == [(image.name, "birds", 1)] * 2
    best = rows[0]["predictions"][0]
    output = CliRunner().invoke(app, call).output
    assert output.count(f"{image.name} (birds)") == 2
    assert output.count(f"│ {best['label']} ") == 2
    assert output.count(f"{100 * best['probability']:.1f} %") == 2


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Return a folder with images of two domains, one that is damaged, and files that are no images."""
    rng = np.random.default_rng(1)
    for name in ("birds/owl/1.png", "birds/wren/2.JPG", "Flowers/rose 1.png", "birds/.hidden.png", "__MACOSX/3.png"):
        path = tmp_path / "photos" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(rng.integers(0, 256, (16, 16, 3), np.uint8)).save(path, "PNG")
    (tmp_path / "photos" / "notes.txt").write_text("no image")
    (tmp_path / "photos" / "birds" / "bad.png").write_bytes(b"no image")
    return tmp_path / "photos"


def _predict(*arguments: object) -> Result:
    return CliRunner().invoke(app, ["predict", *map(str, arguments)])


def test_a_folder_is_classified_with_the_domains_that_its_folders_name(model: Path, folder: Path) -> None:
    done = _predict(model, folder, "--format", "jsonl", "--top", 2)
    assert done.exit_code == 1
    rows = {Path(row["image"]).name: row for row in map(json.loads, done.stdout.splitlines())}
    assert {name: row["domain"] for name, row in rows.items()} == {
        "1.png": "birds",
        "2.JPG": "birds",
        "rose 1.png": "flowers",
        "bad.png": "birds",
    }
    predictor = Predictor(model)
    for name, row in rows.items():
        if name != "bad.png":
            (expected,) = predictor(row["image"], row["domain"], top=2)
            assert [guess["label"] for guess in row["predictions"]] == [guess.label for guess in expected]
    assert "bad.png" in rows["bad.png"]["error"]
    assert done.stderr.count("error: cannot read") == done.stderr.count("\n") == 1
    assert "bad.png" in done.stderr


def test_predictions_are_written_as_csv_with_one_row_per_image(model: Path, folder: Path, tmp_path: Path) -> None:
    out = tmp_path / "predictions.csv"
    done = _predict(model, folder / "birds", "--domain", "birds", "--top", 2, "--out", out)
    assert (done.exit_code, done.stdout) == (1, f"{out}: 3 images\n")
    rows = list(csv.DictReader(out.read_text().splitlines()))
    assert list(rows[0]) == ["image", "domain", "label", "probability", "label_2", "probability_2", "error"]
    (expected,) = Predictor(model)(folder / "birds" / "owl" / "1.png", "birds")
    (row,) = [row for row in rows if row["image"].endswith("1.png")]
    assert (row["label"], row["label_2"], row["error"]) == (expected[0].label, expected[1].label, "")
    assert float(row["probability"]) == pytest.approx(expected.probability, abs=1e-6)
    (bad,) = [row for row in rows if row["image"].endswith("bad.png")]
    assert (bad["label"], "cannot read" in bad["error"]) == ("", True)


def test_a_pattern_names_files_and_good_ones_exit_with_zero(model: Path, folder: Path, tmp_path: Path) -> None:
    out = tmp_path / "predictions.jsonl"
    assert _predict(model, folder / "*" / "*" / "*.png", "--out", out).exit_code == 0
    assert [Path(json.loads(line)["image"]).name for line in out.read_text().splitlines()] == ["1.png"]


def test_many_images_are_one_table(model: Path, image: Path, tmp_path: Path) -> None:
    for number in range(40):
        shutil.copy(image, tmp_path / f"{number:02d}.png")
    output = _predict(model, *sorted(tmp_path.glob("[0-9]*.png")), "--domain", "birds", "--top", 1).output
    (expected,) = Predictor(model)(image, "birds")
    assert output.count(f"{100 * expected.probability:.1f} %") == 40
    assert output.count("probability") == 1


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["image.png"], "the domain of image.png is not known, .*; choose one of birds, flowers with the argument dom"),
        (["image.jpg"], "^there is no image image.jpg$"),
        (["image.png", "--domain", "bird"], "unknown domain 'bird'; did you mean 'birds'"),
        (["none*.png", "--domain", "birds"], r"there is no image none\*\.png, and no file matches it as a pattern"),
        (["empty", "--domain", "birds"], "there are no images in empty; images end in .bmp"),
        (["image.png", "--domain", "birds", "--format", "xml"], "unknown format 'xml'; known: table, csv, jsonl, json"),
        (["image.png", "--domain", "birds", "--out", "x.txt"], r"x.txt must end in \.csv, \.jsonl, \.json, or pass"),
        (["image.png", "--domain", "birds", "--json", "--format", "csv"], "contradict each other; remove one"),
    ],
)
def test_what_cannot_be_classified_is_refused_at_once(
    model: Path, image: Path, monkeypatch: pytest.MonkeyPatch, arguments: list[str], message: str
) -> None:
    monkeypatch.chdir(image.parent)
    (image.parent / "empty").mkdir()
    error = _predict(model, *arguments).exception
    assert isinstance(error, PrunusError)
    assert re.search(message, str(error))


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ([], {}),
        (["--port", "0", "--threads", "2"], {"port": 0, "threads": 2}),
        (["--allow-host", "a.org", "--allow-host", "b.org"], {"allow_hosts": ["a.org", "b.org"]}),
        (["--workers", "3"], {"workers": 3}),
        (["--set", "max_upload_mb=4", "--set", "max_images=3"], {"max_upload_mb": 4.0, "max_images": 3}),
    ],
)
def test_settings_reach_the_service(
    monkeypatch: pytest.MonkeyPatch, options: list[str], expected: dict[str, object]
) -> None:
    calls: list[tuple[Any, ...]] = []
    monkeypatch.setattr("prunus.serve", lambda *arguments: calls.append(arguments))
    result = CliRunner().invoke(app, ["serve", "model.prunus", "--examples", "demo:", *options])
    assert result.exit_code == 0, result.exception
    model, settings, examples, announce = calls[0]
    assert (model, examples) == (Path("model.prunus"), "demo:")
    assert settings.model_dump(include=set(expected)) == expected
    assert settings.host == "127.0.0.1"
    assert callable(announce)


def test_a_setting_without_a_value_is_refused() -> None:
    error = CliRunner().invoke(app, ["serve", "model.prunus", "--set", "max_images"]).exception
    assert isinstance(error, RecipeError)
    assert str(error) == "expected key=value, for example max_upload_mb=4; got 'max_images'"


def test_a_card_is_printed_or_written(model: Path, tmp_path: Path) -> None:
    printed = CliRunner().invoke(app, ["card", str(model)]).stdout
    out = tmp_path / "CARD.md"
    assert CliRunner().invoke(app, ["card", str(model), "--out", str(out)]).stdout == f"{out}: model card of {model}\n"
    assert out.read_text() == printed


@pytest.mark.parametrize("single", [False, True])
def test_exported_files_are_listed_with_their_sizes(model: Path, tmp_path: Path, single: bool) -> None:
    pytest.importorskip("onnxruntime")
    folder = tmp_path / "onnx"
    flags = ["--single"] if single else []
    output = CliRunner().invoke(app, ["export", str(model), "--onnx", str(folder), *flags]).output
    for file in folder.iterdir():
        size = file.stat().st_size
        assert f"{file}: {f'{size / 1e6:.2f} MB' if size >= 1e5 else f'{size / 1e3:.1f} kB'}" in output
    assert len(list(folder.glob("*.onnx"))) == (1 if single else 2)
    again = ["export", str(model), "--out", str(tmp_path / "again"), *flags]  # as other commands call it
    assert CliRunner().invoke(app, again).exit_code == 0
    assert {file.name for file in (tmp_path / "again").iterdir()} == {file.name for file in folder.iterdir()}
    assert "Checked with ONNX Runtime" in output
