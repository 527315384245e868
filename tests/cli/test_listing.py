"""The commands that only show things."""

import json

import pytest
from typer.testing import CliRunner

from prunus.cli.app import app
from prunus.version import __version__

COMMANDS = ["demo", "train", "evaluate", "prune", "predict", "check", "zoo"]


def test_help_names_every_command() -> None:
    output = CliRunner().invoke(app, ["--help"]).output
    assert all(f" {name} " in output for name in COMMANDS)


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_explains_itself_in_at_most_eight_options(name: str) -> None:
    result = CliRunner().invoke(app, [name, "--help"])
    assert result.exit_code == 0
    assert 1 <= result.output.count(" --") <= 9  # help itself is one


def test_the_version_is_shown() -> None:
    assert CliRunner().invoke(app, ["--version"]).output == f"prunus {__version__}\n"


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
