"""The help: groups, examples and options of every command."""

import pytest
from typer.core import TyperGroup
from typer.main import get_command
from typer.testing import CliRunner

from prunus.cli.app import app
from prunus.version import __version__

GROUP = get_command(app)
assert isinstance(GROUP, TyperGroup)
COMMANDS = GROUP.commands


def test_help_names_every_command_in_its_group() -> None:
    output = CliRunner().invoke(app, ["--help"], env={"COLUMNS": "80"}).output
    titles = [f"─ {title} ─" for title in ("Start", "Train", "Measure", "Use", "Research")]
    assert [title for title in titles if title in output] == titles
    assert len(COMMANDS) >= 18
    for name in COMMANDS:
        assert f"│ {name} " in output
    assert "Commands" not in output  # where commands without a group would be


@pytest.mark.parametrize("width", ["80", "120"])
@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_explains_itself_with_an_example_that_fits_one_line(name: str, width: str) -> None:
    result = CliRunner().invoke(app, [name, "--help"], env={"COLUMNS": width})
    assert result.exit_code == 0
    assert max(map(len, result.output.splitlines())) <= int(width)
    examples = [line.strip() for line in result.output.splitlines() if line.startswith(" Example: ")]
    assert len(examples) == 1
    call = examples[0].removeprefix("Example: ").split()
    assert call[:2] == ["prunus", name]
    options = {option for parameter in COMMANDS[name].params for option in parameter.opts}
    assert {word for word in call if word.startswith("--")} <= options
    assert (COMMANDS[name].help or "").split("\n\n")[-1].strip() == examples[0]


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_has_at_most_twelve_options_and_explains_each(name: str) -> None:
    options = [parameter for parameter in COMMANDS[name].params if parameter.param_type_name == "option"]
    assert len(options) <= 12
    assert "unless given" not in CliRunner().invoke(app, [name, "--help"]).output
    for parameter in COMMANDS[name].params:
        assert (parameter.help or "").endswith((".", "...")), parameter.name  # type: ignore[attr-defined]


def test_the_version_is_shown() -> None:
    assert CliRunner().invoke(app, ["--version"]).output == f"prunus {__version__}\n"
