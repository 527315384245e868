"""`prunus demo` without its training run, `prunus init`, `prunus zoo` and `prunus check`."""

import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest
from typer.testing import CliRunner

from prunus.cli.app import app
from prunus.data.checks import CheckReport, DomainSummary, Finding
from prunus.measure.evaluation import Demonstration
from prunus.recipes import load_recipe
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
    theirs = results("union", 0.5, {"birds": 0.7, "flowers": 0.75}, (0.6, 0.45), sharing="union", union=0.6)
    theirs["model_bytes"] = 1_230_000
    commands = ["prunus train recipes/demo_union.toml --out runs/u", "prunus evaluate runs/u"]
    stored = {"title": "the paper's union loss", "commands": commands, "machine": "a machine", "results": theirs}
    output = _demonstrate(monkeypatch, stored=[stored])
    rows = {cells[1].strip(): cells[2:6] for line in output.splitlines() if len(cells := line.split("│")) == 7}
    shown = {title: [cell.strip() for cell in cells] for title, cells in rows.items()}
    assert shown["this model"] == ["80.0 %", "40.0 %", "40.0 %", "0.90 MB"]
    assert shown["frozen features"] == ["75.0 %", "100.0 %", "100.0 %", "0.90 MB"]
    assert shown["the paper's union loss *"] == ["72.5 %", "60.0 % (over budget)", "45.0 %", "1.23 MB"]
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
    said = "pip install 'prunus[report]' (in a checkout: pip install '.[report]'), then: prunus report runs/demo"
    assert f"Report: none yet; {said}" in _demonstrate(monkeypatch)
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


def test_the_zoo_says_which_weights_its_numbers_leave_out() -> None:
    name = "timm/maxvit_rmlp_pico_rw_256"
    shown = CliRunner().invoke(app, ["zoo", name]).output
    assert re.search(rf"note: {name}: \d+ linear layers without switches, with [\d,]+ weights, such as", shown)
    (row,) = json.loads(CliRunner().invoke(app, ["zoo", name, "--json"]).output)
    assert "linear layers without switches" in row["notes"][0]


@pytest.mark.parametrize("width", [80, 200])
def test_names_of_backbones_are_whole_in_every_terminal(width: int) -> None:
    names = ["wrn14_2", "timm/test_vit", "timm/mobilenetv3_small_050"]
    shown = CliRunner(env={"COLUMNS": str(width)}).invoke(app, ["zoo", *names]).output
    assert all(name in shown for name in names)
    assert ("0.68 M kernel weights" in shown) == (width == 80)  # below its name


@pytest.mark.parametrize("width", [40, 60, 79])
@pytest.mark.parametrize("names", [(), ("timm/mobilenetv3_small_050",)])
def test_numbers_of_backbones_stay_with_their_units_and_nothing_is_left_out(width: int, names: tuple[str, ...]) -> None:
    shown = CliRunner(env={"COLUMNS": str(width)}).invoke(app, ["zoo", *names]).output
    facts = ["25.2 M MACs", "weights: bundled"] if not names else ["23.2 M MACs", "weights: timm, hub or file"]
    assert [fact for fact in facts if fact not in shown] == []
    assert max(len(line) for line in shown.splitlines() if line.startswith("  ")) <= width


def test_checking_bundled_data_finds_nothing_wrong() -> None:
    result = CliRunner().invoke(app, ["check", "demo:signs", "--json"])
    report = json.loads(result.output)
    assert result.exit_code == 0
    assert report["domains"] == [{"name": "signs", "classes": 10, "images": {"train": 800, "test": 300}}]


def _checked(monkeypatch: pytest.MonkeyPatch, *findings: Finding, notes: tuple[str, ...] = ()) -> list[str]:
    report = CheckReport((DomainSummary("birds", 2, {"train": 4}),), findings, notes)
    monkeypatch.setattr("prunus.check", lambda *_: report)
    result = CliRunner().invoke(app, ["check", "data"], env={"COLUMNS": "200"})
    assert result.exit_code == report.has_errors
    return result.stdout.splitlines()


def _ignored(number: int, ending: str) -> Finding:
    return Finding("warning", "birds", f"train/a/{number}{ending}", "ignored", f"{ending} ignored")


def test_errors_come_first_and_warnings_of_one_kind_are_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    warnings = [_ignored(number, ".txt" if number % 2 else ".mov") for number in range(1000)]
    errors = [Finding("error", "birds", f"train/a/{number}.png", "cannot read it") for number in range(2)]
    lines = _checked(monkeypatch, *warnings[:500], errors[0], *warnings[500:], errors[1], notes=("a note",))
    assert lines[-6:] == [
        "a note",
        "error birds: train/a/0.png: cannot read it",
        "error birds: train/a/1.png: cannot read it",
        "warning birds: 500 x .mov ignored, such as train/a/0.mov",
        "warning birds: 500 x .txt ignored, such as train/a/1.txt",
        "2 errors, 1,000 warnings",
    ]


def test_one_of_a_kind_is_written_out_and_rare_kinds_are_not_grouped(monkeypatch: pytest.MonkeyPatch) -> None:
    rare = [Finding("warning", "birds", "", text) for text in ("there is no test split", "3 images of mode P")]
    lines = _checked(monkeypatch, _ignored(3, ".txt"), *rare, Finding("error", "birds", "x", "bad"))
    assert lines[-5:] == [
        "error birds: x: bad",
        "warning birds: train/a/3.txt: ignored",
        "warning birds: there is no test split",
        "warning birds: 3 images of mode P",
        "1 error, 3 warnings",
    ]


def test_a_file_that_cannot_be_read_is_named_once(monkeypatch: pytest.MonkeyPatch) -> None:
    bad = Finding("error", "birds", "a/bad.jpg", "cannot read a/bad.jpg: it is none of JPEG, PNG")
    assert "error birds: a/bad.jpg: cannot read it: it is none of JPEG, PNG" in _checked(monkeypatch, bad)


def test_very_many_errors_hide_no_warning(monkeypatch: pytest.MonkeyPatch) -> None:
    errors = [Finding("error", "birds", f"{number}.png", "bad") for number in range(60)]
    lines = _checked(monkeypatch, *errors, _ignored(0, ".txt"))
    assert lines[-3:] == [
        "... and 10 more such lines; list all findings with --json",
        "warning birds: train/a/0.txt: ignored",
        "60 errors, 1 warning",
    ]


def test_the_domains_of_a_recipe_are_checked_as_it_would_train_them(
    make_domain: Callable[..., Path], tmp_path: Path
) -> None:
    (make_domain("My Birds") / "train" / "a" / "0.png").write_bytes(b"no image")
    recipe = tmp_path / "recipe.toml"
    for skips, code in ((True, 0), (False, 1)):
        skip = f"skip_bad_images = {str(skips).lower()}"
        recipe.write_text(f'backbone = "wrn14_2"\ndomains = ["My Birds"]\n{skip}\n')
        result = CliRunner().invoke(app, ["check", str(recipe), "--json"])
        report = json.loads(result.stdout)
        assert result.exit_code == code, result.output
        assert [domain["name"] for domain in report["domains"]] == ["My-Birds"]
        assert [finding["level"] for finding in report["findings"]] == ["warning" if skips else "error"]


def test_init_shows_what_it_found_and_what_to_type_next(
    make_domain: Callable[..., Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_domain("data/My Birds", train=10)
    (tmp_path / "data" / "notes").mkdir()
    monkeypatch.chdir(tmp_path)
    result = CliRunner().invoke(app, ["init", "data"], env={"COLUMNS": "200"})
    assert result.exit_code == 0, result.output
    rows = [[cell.strip() for cell in line.split("│")[1:-1]] for line in result.stdout.splitlines() if "│" in line]
    assert rows == [["My-Birds", "2", "24", "20", "-", "4"]]
    checked = CliRunner().invoke(app, ["check", "recipe.toml"], env={"COLUMNS": "200"}).stdout
    assert [cell.strip() for cell in checked.splitlines()[4].split("│")[1:-1]] == ["My-Birds", "2", "20", "-", "4"]
    assert "My-Birds: split folders test, train" in result.stdout
    assert "Left out: domain 'notes'" in result.stdout
    assert "  prunus train recipe.toml --out runs/first" in result.stdout
    assert load_recipe("recipe.toml").domains[0].name == "My-Birds"
    again = CliRunner().invoke(app, ["init", "data"])
    assert "exists already" in str(again.exception)
    forced = CliRunner().invoke(app, ["init", "data", "--force", "--json"])
    assert json.loads(forced.stdout)["domains"][0]["folder"] == "My Birds"
