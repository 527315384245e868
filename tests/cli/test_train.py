"""`prunus train` and `prunus prune`: what they pass on and print, without a training run."""

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from prunus.bundle.file import read_bundle, write_bundle
from prunus.cli.app import app
from prunus.config import Recipe
from prunus.measure.budget import Plan
from prunus.measure.bundle_cost import bundle_costs
from prunus.run_folder import EpochReport, RunFolder
from tests.makers.graph_bundles import random_bundle, varied_graph
from tests.makers.plans import PLAN

RECIPE = 'backbone = "wrn14_2"\ndomains = ["birds"]\n'


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[tuple[Any, ...]]:
    """Return the arguments of every training run that was asked for."""
    seen: list[tuple[Any, ...]] = []
    (tmp_path / "recipe.toml").write_text(RECIPE)
    monkeypatch.chdir(tmp_path)

    def record(*arguments: Any) -> Path:  # noqa: ANN401
        seen.append(arguments)
        return Path("runs/a")

    monkeypatch.setattr("prunus.train", record)
    monkeypatch.setattr("prunus.resume", record)
    monkeypatch.setattr("prunus.verbs.train.next_steps", lambda run: f"prunus evaluate {run}")
    return seen


def _train(*arguments: str) -> str:
    result = CliRunner().invoke(app, ["train", *arguments])
    assert result.exit_code == 0, result.exception
    return result.output


@pytest.mark.parametrize(
    ("flags", "splits", "skips"),
    [
        ([], "train", False),
        (["--final"], "train+validation", False),
        (["--skip-bad-images"], "train", True),
        (["--final", "--skip-bad-images"], "train+validation", True),
    ],
)
def test_flags_become_settings_of_the_recipe(
    calls: list[tuple[Any, ...]], flags: list[str], splits: str, skips: bool
) -> None:
    output = _train("recipe.toml", "--out", "runs/a", "--set", "budget=0.5", *flags)
    recipe, out, _, device, use_cache = calls[0]
    assert (recipe.training.splits, recipe.skip_bad_images, recipe.budget.kernels) == (splits, skips, 0.5)
    assert (out, device, use_cache) == (Path("runs/a"), "auto", True)
    assert output == "Done. Next: prunus evaluate runs/a\n"


def test_a_run_is_resumed_with_or_without_its_recipe(calls: list[tuple[Any, ...]]) -> None:
    _train("--resume", "runs/a", "--device", "cpu", "--no-cache")
    _train("recipe.toml", "--resume", "runs/a")
    run, _, device, recipe, use_cache = calls[0]
    assert (run, device, recipe, use_cache) == (Path("runs/a"), "cpu", None, False)
    assert calls[1][3].backbone.name == "wrn14_2"


def _write_ending(has_switches: bool = True, **changes: object) -> None:
    domain = {"usage": 0.2, "chance": 0.1, "validation_images": 50} | changes
    content = {"step": 9, "domains": {"birds": domain}, "union": 0.2, "has_switches": has_switches}
    Path("runs/a").mkdir(parents=True)
    Path("runs/a/ending.json").write_text(json.dumps(content))


def test_the_end_of_a_run_shows_accuracies_beside_what_needs_no_training(calls: list[tuple[Any, ...]]) -> None:
    _write_ending(validation_accuracy=0.875, frozen_accuracy=0.8)
    output = _train("recipe.toml", "--out", "runs/a")
    lines = [line.split() for line in output.splitlines() if "%" in line]
    assert lines == [["birds", "87.5", "%", "80.0", "%", "10.0", "%", "20.0", "%"]]
    heading = "domain validation frozen features chance kernels used"
    assert any(line.split() == heading.split() for line in output.splitlines())
    assert "held out" not in output
    assert output.endswith("Done. Next: prunus evaluate runs/a\n")


def test_without_validation_images_the_end_says_how_to_measure(calls: list[tuple[Any, ...]]) -> None:
    _write_ending(has_switches=False)
    output = _train("recipe.toml", "--out", "runs/a")
    assert "No images were held out for validation. Measure the accuracy with: prunus evaluate runs/a" in output
    assert "kernels used" not in output
    assert " - " not in output  # a table of dashes says nothing


def test_a_run_that_was_finished_already_says_so(calls: list[tuple[Any, ...]]) -> None:
    _write_ending(validation_accuracy=0.875)
    finished = "The run was finished already; --set training.epochs=N trains it for longer. Next: "
    assert finished in _train("--resume", "runs/a")


def test_a_run_that_was_trained_for_longer_is_done_even_if_it_keeps_an_earlier_state(
    calls: list[tuple[Any, ...]], monkeypatch: pytest.MonkeyPatch
) -> None:
    _write_ending(validation_accuracy=0.875)
    reports = [[EpochReport(epoch, 4 * epoch, {}, 0.5, 0.5) for epoch in range(count)] for count in (3, 5)]
    monkeypatch.setattr(RunFolder, "epochs", lambda _: reports.pop(0))
    output = _train("--resume", "runs/a", "--set", "training.epochs=5")
    assert "Done. Next: " in output
    assert "finished already" not in output


def test_pruning_says_how_large_the_file_is_and_what_was_kept(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    bundle = random_bundle(varied_graph(0), 12, ("birds", "flowers"))
    file = tmp_path / "model.prunus"
    write_bundle(file, bundle)
    monkeypatch.setattr("prunus.prune", lambda *_: file)
    result = CliRunner().invoke(app, ["prune", "runs/a", "--out", str(file)])
    assert result.exit_code == 0, result.exception
    output = result.output
    kept = f"{100 * bundle_costs(bundle).union():.1f} % of the kernels kept"
    assert output.startswith(f"{file}: {file.stat().st_size / 1e3:.1f} kB for 2 domains (birds, flowers), {kept}")
    assert "budget" not in output  # the file does not know of any


def test_pruning_says_that_the_budget_is_kept_or_by_how_much_it_is_missed(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    bundle = random_bundle(varied_graph(0), 12, ("birds", "flowers"))
    file = tmp_path / "model.prunus"
    asked: list[tuple[Any, ...]] = []

    def record(*arguments: Any) -> Path:  # noqa: ANN401
        asked.append(arguments)
        return file

    monkeypatch.setattr("prunus.prune", record)

    def prune(budget: object, *options: str) -> list[str]:
        recipe = {"backbone": "wrn14_2", "domains": ["birds", "flowers"], "method": "exact", "budget": budget}
        bundle.manifest.provenance["recipe"] = recipe
        write_bundle(file, bundle)
        result = CliRunner().invoke(app, ["prune", "runs/a", "--out", str(file), *options])
        assert result.exit_code == 0, result.exception
        return result.output.splitlines()

    total, kept = bundle_costs(bundle).num_kernels(), sum(layer.union for layer in bundle_costs(bundle).layers)
    lines = prune(1.0)
    assert f"({kept:,} of {total:,}), float32;" in lines[0]
    assert lines[1] == f"budget kept: {kept:,} of {total:,} kernels"
    lines = prune({"bytes": 1000}, "--dtype", "float16")
    assert lines[1].startswith("note: the model is over its budget (")
    assert not any(line.startswith("budget kept") for line in lines)
    bundle.manifest.provenance.update({"step": 3, "total_steps": 8})
    assert prune({"bytes": 1000})[1].endswith("continue it with: prunus train --resume runs/a")
    assert [arguments[2] for arguments in asked] == [None, "float16", None]


def test_a_plan_is_printed_as_a_table_or_as_json(calls: list[tuple[Any, ...]], monkeypatch: pytest.MonkeyPatch) -> None:
    planned: list[Recipe] = []

    def plan(recipe: Recipe) -> Plan:
        planned.append(recipe)
        return PLAN

    monkeypatch.setattr("prunus.plan", plan)
    table = CliRunner().invoke(app, ["plan", "recipe.toml", "--set", 'budget.bytes="300 kB"'])
    assert table.exit_code == 0, table.exception
    assert "the limit that decides: 18,828 of 18,828 kernels" in table.output
    assert planned[0].budget.bytes == 300_000
    printed = CliRunner().invoke(app, ["plan", "recipe.toml", "--json"])
    assert Plan.model_validate_json(printed.stdout) == PLAN


def test_domains_are_removed_on_the_command_line(tmp_path: Path) -> None:
    file = tmp_path / "model.prunus"
    write_bundle(file, random_bundle(varied_graph(0), 12))
    shown = CliRunner().invoke(app, ["remove-domain", str(file), "a", "--out", str(tmp_path / "smaller.prunus")])
    assert shown.exit_code == 0
    smaller = tmp_path / "smaller.prunus"
    change = smaller.stat().st_size - file.stat().st_size
    assert f"({change:+,} bytes) for 1 domain (b)" in " ".join(shown.output.split())
    assert read_bundle(smaller).domains == ("b",)


def test_add_domain_passes_its_options_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "model.prunus"
    write_bundle(file, random_bundle(varied_graph(0), 12))
    calls: list[tuple[tuple[object, ...], dict[str, object]]] = []

    def add_domain(*given: object, **named: object) -> Path:
        calls.append((given, named))
        return file

    monkeypatch.setattr("prunus.add_domain", add_domain)
    options = "--name cars --grow 5% --replace --teacher none --run runs/cars --set training.epochs=3 --no-cache"
    shown = CliRunner().invoke(app, ["add-domain", str(file), "data/cars", "--out", "x.prunus", *options.split()])
    assert shown.exit_code == 0
    ((given, named),) = calls
    assert given == (file, "data/cars", Path("x.prunus"))
    assert named == {
        "name": "cars",
        "grow": "5%",
        "replace": True,
        "teacher": None,
        "weights": None,
        "settings": ["training.epochs=3"],
        "run": Path("runs/cars"),
        "device": "auto",
        "use_cache": False,
        "progress": True,
    }
    assert "(+0 bytes) for 2 domains (a, b)" in shown.output
