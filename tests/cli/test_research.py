"""`prunus compare` and `prunus score`: what they pass on, print and refuse."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from prunus.cli.app import app
from prunus.errors import DataError, RecipeError, TrainingError
from prunus.measure.alternatives.results import Versus
from prunus.measure.comparison import Comparison, Sweep
from prunus.methods.table import METHODS
from tests.makers.comparison_rows import ROW
from tests.makers.versus_results import row, versus

TEN = ",".join(["50"] * 10)
Run = Callable[..., Result]


@pytest.fixture
def failed() -> dict[str, str]:
    return {}


@pytest.fixture
def calls() -> list[tuple[Any, ...]]:
    return []


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, calls: list[tuple[Any, ...]], failed: dict[str, str]) -> Run:
    def compare(*arguments: Any, seconds: float | None = None) -> Comparison:  # noqa: ANN401
        calls.append((*arguments, seconds))
        return Comparison(domains=("birds",), backbone="wrn14_2", split="test", rows=(ROW,), failed=failed)

    monkeypatch.setattr("prunus.compare", compare)
    (tmp_path / "recipe.toml").write_text('backbone = "wrn14_2"\ndomains = ["birds"]\n')
    return lambda *options: CliRunner().invoke(app, ["compare", str(tmp_path / "recipe.toml"), *options])


def test_the_table_and_the_files_are_shown(run: Run) -> None:
    output = run("--out", "there").output
    assert "union" in output
    assert "90.0" in output
    assert "Written to there: comparison.csv, .json, .md and .tex" in output


def test_options_reach_the_comparison(run: Run, calls: list[tuple[Any, ...]]) -> None:
    run(
        "--methods",
        "union,ba2",
        "--budgets",
        "0.5,0.25",
        "--set",
        "seed=3",
        "--no-cache",
        "--split",
        "train",
        "--seeds",
        "0,2",
    )
    recipe, out, methods, budgets, _, device, use_cache, split, seeds, jobs, _ = calls[0]
    assert recipe.seed == 3
    assert (out, methods, budgets) == (Path("runs/compare"), "union,ba2", [0.5, 0.25])
    assert (device, use_cache, split, seeds, jobs) == ("auto", False, "train", [0, 2], 1)


def test_several_jobs_share_one_display(run: Run, calls: list[tuple[Any, ...]]) -> None:
    run("--jobs", "2")
    *_, watch, _, _, _, seeds, jobs, _ = calls[0]
    assert (seeds, jobs) == ([], 2)
    assert [type(observer).__name__ for observer in watch("1/2 bn")] == ["TrialProgress"]


def test_json_is_the_comparison(run: Run) -> None:
    content = json.loads(run("--json").stdout)
    assert Comparison.model_validate(content).rows == (ROW,)


def test_budgets_that_are_no_numbers_are_refused(run: Run, calls: list[tuple[Any, ...]]) -> None:
    error = run("--budgets", "0.5;1").exception
    assert isinstance(error, RecipeError)
    assert "--budgets must be numbers separated by commas" in str(error)
    assert calls == []


def test_seeds_that_are_no_whole_numbers_are_refused(run: Run, calls: list[tuple[Any, ...]]) -> None:
    error = run("--seeds", "0,1.5").exception
    assert isinstance(error, RecipeError)
    assert "--seeds must be whole numbers separated by commas, such as 0,1,2; got '0,1.5'" in str(error)
    assert calls == []


def test_rows_that_failed_are_an_error_after_the_table(run: Run, failed: dict[str, str]) -> None:
    failed["ba2-1"] = "the loss is not a number"
    result = run()
    assert "Written to" in result.output
    assert isinstance(result.exception, TrainingError)
    assert str(result.exception) == "ba2-1: the loss is not a number"


@pytest.fixture
def run_sweep(
    monkeypatch: pytest.MonkeyPatch, run: Run, tmp_path: Path, calls: list[Any], failed: dict[str, str]
) -> Run:
    def sweep(*arguments: Any, **options: Any) -> Sweep:  # noqa: ANN401
        calls.append((arguments, options))
        options["note"]("Ray is not installed")
        return Sweep(domains=("birds",), backbone="wrn14_2", split="test", rows=(ROW,), failed=failed)

    monkeypatch.setattr("prunus.sweep", sweep)
    return lambda *options: CliRunner().invoke(app, ["sweep", str(tmp_path / "recipe.toml"), *options])


def test_a_sweep_shows_its_table_its_notes_and_its_files(run_sweep: Run) -> None:
    output = run_sweep("--out", "there").output
    assert output.startswith("note: Ray is not installed\n")
    assert "union β=0.5" in output
    assert "S_E" not in output
    assert "Written to there: sweep.csv, .json, .md and .tex, and pareto.svg" in output


def test_options_reach_the_sweep(run_sweep: Run, calls: list[Any]) -> None:
    chosen = ("--methods", "union,ba2", "--budgets", "0.5,0.25", "--seeds", "0,2", "--grid", "training.lr=0.1,0.2")
    run_sweep(*chosen, "--jobs", "2", "--address", "auto", "--split", "train")
    (_, *positional), options = calls[0]
    assert positional == [Path("runs/sweep"), "union,ba2", [0.5, 0.25], [0, 2], ["training.lr=0.1,0.2"]]
    assert (options["jobs"], options["address"], options["split"]) == (2, "auto", "train")


def test_a_sweep_without_options_uses_the_recipe(run_sweep: Run, calls: list[Any]) -> None:
    run_sweep()
    (_, *positional), options = calls[0]
    assert positional == [Path("runs/sweep"), (), (), [], ()]
    assert (options["jobs"], options["address"], options["split"]) == (None, None, None)


def test_trials_that_failed_are_an_error_after_the_table(run_sweep: Run, failed: dict[str, str]) -> None:
    failed["ba2-1"] = "the loss is not a number"
    result = run_sweep()
    assert "Written to" in result.output
    assert str(result.exception) == "ba2-1: the loss is not a number"


def _score(*arguments: str) -> Result:
    return CliRunner().invoke(app, ["score", *arguments])


def test_scores_are_shown_below_the_accuracies() -> None:
    output = _score("--accuracy", TEN, "--macs", "0.5", "--params", "0.25").output
    cells = [line.strip("│┃ ").replace(" ", "").split("│") for line in output.splitlines()]
    accuracies = {row[0]: row[1] for row in cells if len(row) == 2}
    assert accuracies["imagenet12"] == "50.0%"
    assert float(accuracies["S_O"]) == pytest.approx(2 * float(accuracies["S"]), abs=1.5)
    assert float(accuracies["S_P"]) == pytest.approx(4 * float(accuracies["S"]), abs=2.5)
    assert "S_E is relative to the feature extractor's S of" in output


def test_scores_without_costs_are_omitted() -> None:
    output = _score("--accuracy", TEN).output
    assert "S_O" not in output
    assert "S_E" not in output


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "pass either --accuracy"),
        (["results.zip"], "pass either --accuracy"),
        (["results.zip", "--labels", "x", "--accuracy", TEN], "pass either --accuracy"),
        (["results.zip", "--labels", "x", "--benchmark", "imagenet_to_sketch"], "can be scored for decathlon only"),
        (["--accuracy", "50;60"], "--accuracy must be numbers separated by commas; got '50;60'"),
    ],
)
def test_accuracies_and_results_that_cannot_be_scored_are_refused(arguments: list[str], message: str) -> None:
    result = _score(*arguments)
    assert isinstance(result.exception, DataError)
    assert message in str(result.exception)


def test_methods_are_listed_briefly_and_described_by_name() -> None:
    brief = CliRunner().invoke(app, ["methods"], env={"COLUMNS": "80"}).stdout
    assert all(f" {name} " in brief for name in METHODS)
    assert len(brief.splitlines()) <= 2 * len(METHODS) + 8
    assert "Wallingford" not in brief
    described = CliRunner().invoke(app, ["methods", "taps"], env={"COLUMNS": "200"}).stdout
    for words in ("Wallingford et al., CVPR 2022", "taps: sparsity = 1.0", "the weights of the selected layers"):
        assert words in described
    assert "piggyback" not in described
    explained = CliRunner().invoke(app, ["methods", "--explain"], env={"COLUMNS": "200"}).stdout
    assert "Wallingford" in explained
    assert "Mallya" in explained


def test_an_unknown_method_is_refused_with_the_known_ones() -> None:
    refused = CliRunner().invoke(app, ["methods", "tapss"])
    assert "unknown method 'tapss'; did you mean 'taps'? known: taps, " in str(refused.exception)


def test_versus_passes_on_its_options_and_prints_both_tables(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    calls: list[tuple[Any, ...]] = []
    results = versus([row("lora", 0, 0.8, 5_000_000, 2.0), row("ours", 0, 0.81, 800_000, 1.0)])

    def measure(*arguments: Any) -> Versus:  # noqa: ANN401
        calls.append(arguments)
        return results

    monkeypatch.setattr("prunus.versus", measure)
    (tmp_path / "recipe.toml").write_text('backbone = "wrn14_2"\ndomains = ["birds"]\n')
    command = ["versus", str(tmp_path / "recipe.toml")]
    options = ["--only", "lora", "--budgets", "0.5,1", "--seeds", "0,1", "--set", "training.epochs=3", "--rounds", "9"]
    shown = CliRunner().invoke(app, [*command, *options, "--no-cache"])
    recipe, out, only, budgets, seeds, rounds, split, watch, device, use_cache = calls[0]
    assert recipe.training.epochs == 3
    assert (out, only, budgets, seeds, rounds) == (Path("runs/versus"), "lora", [0.5, 1.0], [0, 1], 9)
    assert (split, device, use_cache) == ("test", "auto", False)
    assert [type(observer).__name__ for observer in watch("1/2 lora")] == ["TrainingProgress"]
    assert "against" in shown.output
    assert "+1.0" in shown.output
    assert "Written to runs/versus: versus.json, .md and .svg" in shown.output
    printed = json.loads(CliRunner().invoke(app, [*command, "--json"]).stdout)
    assert Versus.model_validate(printed) == results
