"""Options that several commands share."""

from __future__ import annotations

import json
from typing import Annotated

import typer

Device = Annotated[str, typer.Option(help="Where to compute: auto, cpu or cuda.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")]
NoCache = Annotated[bool, typer.Option("--no-cache", help="Decode images anew; neither use nor fill the cache.")]
Overrides = Annotated[
    list[str] | None, typer.Option("--set", help="Change a recipe key, e.g. --set training.epochs=5. May be repeated.")
]


def print_json(content: object) -> None:
    """Print plain JSON, without colours or line breaks inside values."""
    typer.echo(json.dumps(content, indent=2, ensure_ascii=False))
