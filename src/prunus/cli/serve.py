"""`prunus serve`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

import typer

from prunus.cli.options import ModelFile
from prunus.errors import PrunusError

Settings = Annotated[
    list[str] | None, typer.Option("--set", help="Change a limit, as in max_upload_mb=4. May be repeated.")
]


def command(
    model: ModelFile,
    host: Annotated[
        str | None, typer.Option(help="Address; 0.0.0.0 listens on all interfaces.", show_default="127.0.0.1")
    ] = None,
    port: Annotated[int | None, typer.Option(help="Port; 0 picks a free one.", show_default="8000")] = None,
    threads: Annotated[int | None, typer.Option(help="Threads per batch.", show_default="1")] = None,
    examples: Annotated[
        str | None,
        typer.Option(help="Example images for the page: a folder DOMAIN/IMAGE, or demo: for the bundled ones."),
    ] = None,
    overrides: Settings = None,
) -> None:
    """Serve a model file over HTTP: a page to try it, an API and metrics.

    Example: prunus serve model.prunus --examples demo:
    """
    from prunus.serving.settings import parse_settings
    from prunus.verbs.serve import serve

    options = {"host": host, "port": port, "threads": threads}
    values = {name: value for name, value in options.items() if value is not None} | _parse(overrides or ())
    serve(
        model,
        parse_settings(values),
        examples,
        lambda address: typer.echo(f"Serving {model.name} at {address} (stop with Ctrl-C)"),
    )


def _parse(overrides: Sequence[str]) -> dict[str, object]:
    from prunus.recipes import parse_value

    wrong = [override for override in overrides if "=" not in override]
    if wrong:
        raise PrunusError(f"a setting must look like key=value, for example max_upload_mb=4; got {wrong[0]!r}")
    pairs = (override.split("=", 1) for override in overrides)
    return {key.strip(): parse_value(text) for key, text in pairs}
