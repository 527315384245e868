"""How the command ends: exit codes, and one line for everything that the user can fix."""

import inspect
import pkgutil
import warnings
from collections.abc import Callable
from importlib import import_module

import pytest
from typer.testing import CliRunner

from prunus import cli
from prunus.cli import app as application
from prunus.cli.app import GROUPS, PACKAGE, main
from prunus.errors import DataError, TrainingInterrupted


@pytest.fixture
def fail(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Callable[[BaseException], str]:
    """Return a function that lets the command raise an error and returns its exit code and what it prints."""

    def run(error: BaseException) -> str:
        def broken() -> None:
            raise error

        monkeypatch.setattr(application, "app", broken)
        with pytest.raises(SystemExit) as stop:
            main()
        return f"{stop.value.code} {capsys.readouterr().err}"

    return run


def _missing(package: str) -> ModuleNotFoundError:
    return ModuleNotFoundError(f"No module named {package!r}", name=package)


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (DataError("no such thing"), "1 error: no such thing\n"),
        (TrainingInterrupted("saved at step 3"), "130 stopped: saved at step 3\n"),
        (KeyboardInterrupt(), "130 stopped: interrupted; files that were already saved are intact\n"),
        (PermissionError(13, "Permission denied", "a.toml"), "1 error: a.toml: Permission denied\n"),
        (OSError("strange"), "1 error: the system: strange\n"),
        (DataError("as [red]written[/]"), "1 error: as [red]written[/]\n"),
    ],
)
def test_errors_are_one_line_and_an_exit_code(
    fail: Callable[[BaseException], str], error: BaseException, expected: str
) -> None:
    assert fail(error) == expected


@pytest.mark.parametrize(("package", "extra"), [("torch", "train"), ("timm", "train"), ("onnxruntime", "onnx")])
def test_a_missing_package_names_the_extra_that_installs_it(
    fail: Callable[[BaseException], str], package: str, extra: str
) -> None:
    said = fail(_missing(package))
    assert said.startswith("1 error: this command needs")
    assert f"pip install 'prunus[{extra}]'" in said


def test_a_missing_package_of_our_own_is_a_traceback(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken() -> None:
        raise _missing("prunus.gone")

    monkeypatch.setattr(application, "app", broken)
    with pytest.raises(ModuleNotFoundError, match="gone"):
        main()


def test_every_command_is_in_exactly_one_group() -> None:
    grouped = [command for commands in GROUPS.values() for command in commands]
    modules = [import_module(f"prunus.cli.{found.name}") for found in pkgutil.iter_modules(cli.__path__)]
    written = {
        function
        for module in modules
        for _, function in inspect.getmembers(module, inspect.isfunction)
        if "Example: prunus" in (function.__doc__ or "")
    }
    assert len(grouped) == len(set(grouped)) == 25
    assert set(grouped) == written


def test_a_warning_of_prunus_is_one_line_and_others_stay_as_they_are(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    others: list[str] = []

    def warn() -> None:
        warnings.simplefilter("always")
        warnings.warn_explicit("the images were decoded again", UserWarning, str(PACKAGE / "data" / "cache.py"), 7)
        warnings.warn_explicit("of another package", UserWarning, "/elsewhere/torch.py", 7)

    monkeypatch.setattr("prunus.cli.app.app", warn)
    monkeypatch.setattr("warnings.showwarning", lambda message, *_: others.append(str(message)))
    before = warnings.showwarning
    main()
    assert capsys.readouterr().err == "warning: the images were decoded again\n"
    assert others == ["of another package"]
    assert warnings.showwarning is before


COMMANDS = [function.__name__.replace("_", "-") for commands in GROUPS.values() for function in commands]


@pytest.mark.parametrize("command", [[], *([name] for name in COMMANDS)])
def test_help_shows_no_type_for_flags_and_no_python_type_for_options(command: list[str]) -> None:
    help_text = CliRunner().invoke(application.app, [*command, "--help"], env={"COLUMNS": "200"}).output
    options = help_text.partition("─ Options ─")[2]
    assert "--help" in options
    assert "bool" not in options
    assert "list[" not in options
