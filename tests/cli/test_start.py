"""`prunus demo` without its training run, `prunus zoo` and `prunus check`."""

import json

import pytest
from typer.testing import CliRunner

from prunus.cli.app import app
from prunus.measure.evaluation import Demonstration
from tests.makers.run_folders import results


def _demonstrate(monkeypatch: pytest.MonkeyPatch, *options: str, **changes: object) -> str:
    feature = results("feature", None, {"birds": 0.8, "flowers": 0.7}, (1.0, 1.0))
    guesses = [{"label": "owl", "probability": 0.75}]
    example = {"domain": "birds", "file": "test/owl/1.png", "truth": "owl", "predictions": guesses}
    content = results() | {"baselines": {"feature": feature}, "example": example, "report": None} | changes
    monkeypatch.setattr("prunus.demo", lambda *_: Demonstration.model_validate(content))
    result = CliRunner().invoke(app, ["demo", *options], env={"COLUMNS": "200"})
    assert result.exit_code == 0, result.output
    return result.stdout


def test_the_summary_says_size_cost_and_gain(monkeypatch: pytest.MonkeyPatch) -> None:
    output = _demonstrate(monkeypatch)
    assert (
        "One file of 0.90 MB serves all 2 domains with 50 % of the backbone's parameters and 40 % of its computation "
        "per image. It is 5.0 points more accurate than the backbone's frozen features."
    ) in output
    assert "Written to runs/demo: results.json, bench.json, model.prunus, plots" in output
    assert "Next: prunus predict runs/demo/model.prunus IMAGE --domain birds" in output


def test_stored_results_stand_beside_the_model_with_their_commands(monkeypatch: pytest.MonkeyPatch) -> None:
    theirs = results("union", 0.5, {"birds": 0.7, "flowers": 0.75}, (0.6, 0.45)) | {"model_bytes": 1_230_000}
    commands = ["prunus train recipes/demo_union.toml --out runs/u", "prunus evaluate runs/u"]
    stored = {"title": "the paper's union loss", "commands": commands, "machine": "a machine", "results": theirs}
    output = _demonstrate(monkeypatch, stored=[stored])
    rows = {cells[1].strip(): cells[2:6] for line in output.splitlines() if len(cells := line.split("│")) == 7}
    shown = {title: [cell.strip() for cell in cells] for title, cells in rows.items()}
    assert shown["this model"] == ["80.0 %", "40.0 %", "40.0 %", "0.90 MB"]
    assert shown["frozen features"] == ["75.0 %", "100.0 %", "100.0 %", "0.90 MB"]
    assert shown["the paper's union loss *"] == ["72.5 %", "40.0 %", "45.0 %", "1.23 MB"]
    assert f"* the paper's union loss: stored result of: {' && '.join(commands)}" in output
    assert "stored result" not in _demonstrate(monkeypatch)


def test_a_loss_of_accuracy_is_called_one(monkeypatch: pytest.MonkeyPatch) -> None:
    assert "15.0 points less accurate" in _demonstrate(monkeypatch, mean_accuracy=0.6)


@pytest.mark.parametrize(("truth", "verdict"), [("owl", "correct"), ("wren", "wrong: it is 'wren'")])
def test_the_example_is_compared_with_the_truth(monkeypatch: pytest.MonkeyPatch, truth: str, verdict: str) -> None:
    guesses = [{"label": "owl", "probability": 0.75}]
    example = {"domain": "birds", "file": "1.png", "truth": truth, "predictions": guesses}
    expected = f"A test image of domain 'birds', 1.png: class 'owl' with 75.0 % ({verdict})."
    assert expected in _demonstrate(monkeypatch, example=example)


def test_the_report_is_named_or_how_to_get_one(monkeypatch: pytest.MonkeyPatch) -> None:
    assert "Report: none yet; pip install 'prunus[report]', then: prunus report runs/demo" in _demonstrate(monkeypatch)
    assert "Report: runs/demo/report.html" in _demonstrate(monkeypatch, report="runs/demo/report.html")


def test_json_holds_everything_and_nothing_else_is_printed(monkeypatch: pytest.MonkeyPatch) -> None:
    content = json.loads(_demonstrate(monkeypatch, "--json"))
    assert content["baselines"]["feature"]["mean_accuracy"] == 0.75
    assert content["report"] is None


def test_the_zoo_gives_size_input_and_weights_of_any_backbone() -> None:
    rows = json.loads(CliRunner().invoke(app, ["zoo", "wrn28_4", "timm/resnet18", "--json"]).output)
    assert [(row["name"], row["input_size"]) for row in rows] == [("wrn28_4", 64), ("timm/resnet18", 224)]
    assert rows[0]["macs"] == 852_885_504
    assert rows[0]["top1"] == pytest.approx(0.634, abs=1e-3)
    assert "wrn14_2" in CliRunner().invoke(app, ["zoo"]).output


def test_checking_bundled_data_finds_nothing_wrong() -> None:
    result = CliRunner().invoke(app, ["check", "demo:signs", "--json"])
    report = json.loads(result.output)
    assert result.exit_code == 0
    assert report["domains"] == [{"name": "signs", "classes": 10, "images": {"train": 800, "test": 300}}]
