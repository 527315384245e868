"""`prunus card`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from prunus.cli.options import ModelFile


def command(
    model: ModelFile,
    out: Annotated[Path | None, typer.Option(help="Write the card to this file instead of printing it.")] = None,
) -> None:
    """Describe a model file as a model card in Markdown.

    Example: prunus card model.prunus --out CARD.md
    """
    from prunus.verbs.card import card

    text = card(model, out)
    typer.echo(f"{out}: model card of {model}" if out else text, nl=out is not None)
