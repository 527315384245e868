"""`prunus predict`, `prunus serve`, `prunus card` and `prunus export`: what they print and pass on."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image
from typer.testing import CliRunner

from prunus.bundle.file import write_bundle
from prunus.cli.app import app
from prunus.errors import RecipeError
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
        assert f"{file}: {file.stat().st_size / 1e6:.2f} MB" in output
    assert len(list(folder.glob("*.onnx"))) == (1 if single else 2)
    assert "Checked with ONNX Runtime" in output
