"""Describe a model file."""

from pathlib import Path

from prunus.measure.inspection import Inspection, inspect_file


def inspect(model: str | Path) -> Inspection:
    """Describe a model file: what each layer keeps, each domain uses, domains share, and where the bytes go."""
    return inspect_file(Path(model))
