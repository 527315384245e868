"""The `prunus` command: its groups of commands, and how errors are printed."""

import os
import sys
import warnings
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import NoReturn

import typer

from prunus.cli import measure, research, start, train, use
from prunus.cli.output import complain, say
from prunus.cli.plain_help import PlainCommand, PlainGroup
from prunus.errors import MissingExtraError, PrunusError, TrainingInterrupted
from prunus.version import __version__

PACKAGE = Path(__file__).parents[1]
TRAINING_PACKAGES = {"torch", "torchvision", "timm", "tensorboard", "matplotlib"}
ONNX_PACKAGES = {"onnx", "onnxruntime"}
GROUPS: dict[str, tuple[Callable[..., None], ...]] = {
    "Start": (start.demo, start.init, start.check, start.zoo),
    "Train": (train.plan, train.train, train.prune, train.pretrain),
    "Change": (train.add_domain, train.remove_domain),
    "Measure": (measure.evaluate, measure.bench, measure.inspect, measure.report),
    "Use": (use.predict, use.serve, use.export, use.card),
    "Research": (
        research.methods,
        research.compare,
        research.versus,
        research.sweep,
        research.submit,
        research.score,
        research.tables,
    ),
}

app = typer.Typer(
    name="prunus",
    cls=PlainGroup,
    help="Train one small model for many image domains, pruned to a budget.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
for group, commands in GROUPS.items():
    for command in commands:
        app.command(cls=PlainCommand, rich_help_panel=group)(command)


def _show_version(is_asked: bool) -> None:
    if is_asked:
        say(f"prunus {__version__}")
        raise typer.Exit


@app.callback(epilog="Example: prunus demo")
def _options(
    version: bool = typer.Option(
        False, "--version", callback=_show_version, is_eager=True, help="Show the version and exit."
    ),
) -> None:
    pass


def main() -> None:
    """Run the command line; print errors that the user can fix as one line and exit with a non-zero code."""
    # OpenMP's threads spin while they wait, which makes training ten times slower beside any other busy program
    os.environ.setdefault("GOMP_SPINCOUNT", "1000")
    try:
        with warnings.catch_warnings():
            warnings.showwarning = partial(_show_warning, otherwise=warnings.showwarning)
            app()
    except TrainingInterrupted as stop:
        _fail("stopped", str(stop), 130)
    except PrunusError as error:
        _fail("error", str(error), 1)
    except ModuleNotFoundError as error:
        if error.name not in TRAINING_PACKAGES | ONNX_PACKAGES:
            raise
        extra = "onnx" if error.name in ONNX_PACKAGES else "train"
        _fail("error", str(MissingExtraError(error.name, extra, "this command")), 1)
    except KeyboardInterrupt:
        _fail("stopped", "interrupted; files that were already saved are intact", 130)
    except BrokenPipeError:
        # the program that read our output has ended: end quietly, as other tools do
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(1)
    except OSError as error:
        _fail("error", f"{error.filename or 'the system'}: {error.strerror or error}", 1)


def _show_warning(
    message: Warning | str, category: type[Warning], filename: str, *where: object, otherwise: Callable[..., None]
) -> None:
    """Print a warning of this package as one line, without the line of code that it comes from."""
    if Path(filename).is_relative_to(PACKAGE):
        complain("warning", str(message))
    else:
        otherwise(message, category, filename, *where)


def _fail(kind: str, message: str, code: int) -> NoReturn:
    complain(kind, message)
    sys.exit(code)
