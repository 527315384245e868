"""The `prunus` command and how its errors look."""

from __future__ import annotations

import os
import sys
from typing import NoReturn

import typer
from rich.console import Console

from prunus.cli import (
    bench,
    card,
    check,
    compare,
    demo,
    evaluate,
    export,
    inspect,
    methods,
    predict,
    prune,
    report,
    score,
    serve,
    submit,
    tables,
    train,
    zoo,
)
from prunus.errors import MissingExtraError, PrunusError, TrainingInterrupted
from prunus.version import __version__

TRAINING_PACKAGES = {"torch", "torchvision", "timm", "tensorboard", "matplotlib"}
ONNX_PACKAGES = {"onnx", "onnxruntime"}

app = typer.Typer(
    name="prunus",
    help="One small model for many image domains, pruned to a budget.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
for module in (
    demo,
    train,
    evaluate,
    prune,
    inspect,
    export,
    predict,
    serve,
    bench,
    compare,
    report,
    card,
    methods,
    check,
    zoo,
    submit,
    score,
    tables,
):
    app.command(name=module.__name__.rpartition(".")[2])(module.command)


def _show_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"prunus {__version__}")
        raise typer.Exit


@app.callback()
def _options(
    version: bool = typer.Option(
        False, "--version", callback=_show_version, is_eager=True, help="Show the version and exit."
    ),
) -> None:
    pass


def main() -> None:
    """Run the command line; what the user can mend is one line and a non-zero exit."""
    # by default OpenMP's threads spin while they wait, and beside any other busy program training is ten times slower
    os.environ.setdefault("GOMP_SPINCOUNT", "1000")
    try:
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
        _fail("stopped", "interrupted; what was saved before is intact", 130)
    except BrokenPipeError:
        # whoever read our output has gone: end quietly, as other tools do
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(1)
    except OSError as error:
        _fail("error", f"{error.filename or 'the system'}: {error.strerror or error}", 1)


def _fail(kind: str, message: str, code: int) -> NoReturn:
    console = Console(stderr=True, soft_wrap=True, highlight=False, emoji=False)
    console.print(f"[bold red]{kind}:[/]", end=" ")
    console.print(message, markup=False)
    sys.exit(code)
