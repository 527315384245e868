"""`prunus serve`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from prunus.errors import PrunusError

Settings = Annotated[
    list[str] | None, typer.Option("--set", help="Change a limit, e.g. --set max_upload_mb=4. May be repeated.")
]


def command(
    model: Annotated[Path, typer.Argument(help="A model file.")],
    host: Annotated[str | None, typer.Option(help="127.0.0.1 unless given; 0.0.0.0 is open to others.")] = None,
    port: Annotated[int | None, typer.Option(help="8000 unless given; 0 is any free one.")] = None,
    threads: Annotated[int | None, typer.Option(help="Threads that compute one batch; 1 unless given.")] = None,
    examples: Annotated[
        str | None,
        typer.Option(help="Images to try on the page: a folder <domain>/<image>, or demo: for the bundled domains."),
    ] = None,
    overrides: Settings = None,
) -> None:
    """Serve a model file over HTTP: a page to try it, predictions for programs, metrics."""
    from prunus.serving.settings import parse_settings
    from prunus.verbs.serve import serve

    given = {"host": host, "port": port, "threads": threads}
    values = {name: value for name, value in given.items() if value is not None} | _typed(overrides or ())
    console = Console(highlight=False)
    serve(
        model,
        parse_settings(values),
        examples,
        lambda address: console.print(
            f"{model.name} is served at {address} (Ctrl-C stops)", markup=False, soft_wrap=True
        ),
    )


def _typed(overrides: Sequence[str]) -> dict[str, object]:
    from prunus.recipes import parse_value

    wrong = [override for override in overrides if "=" not in override]
    if wrong:
        raise PrunusError(f"a setting is written key=value, got {wrong[0]!r}; for example max_upload_mb=4")
    pairs = (override.split("=", 1) for override in overrides)
    return {key.strip(): parse_value(text) for key, text in pairs}
