"""Describe a model file."""

from prunus.measure.inspection import Inspection, inspect_file
from prunus.verbs.arguments import ModelLike, model_path


def inspect(model: ModelLike) -> Inspection:
    """Describe a model file: what each layer keeps, each domain uses, domains share, and where the bytes go."""
    return inspect_file(model_path(model))
