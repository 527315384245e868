"""The grid of a sweep: recipe keys, each with the values to try."""

import itertools
from collections.abc import Mapping, Sequence
from typing import Any

from pydantic import JsonValue

from prunus.errors import RecipeError
from prunus.recipes import parse_value

EXAMPLE = "training.lr=0.01,0.05"
# key -> the option that sets it
OTHER_OPTIONS = {
    "budget": "the argument budgets",
    "seed": "the argument seeds",
    "method": "the argument methods, as in taps:sparsity=0.5",
    "sharing": "the argument methods, as in ba2:sharing=soft_overlap",
    "domains": "the recipe: all trials share their domains",
}


def parse_grid(assignments: Sequence[str]) -> list[dict[str, JsonValue]]:
    """Return every combination of the values of `key=value,value`; one empty combination if there are none."""
    axes: dict[str, list[JsonValue]] = {}
    for text in assignments:
        key, separator, values = (part.strip() for part in text.partition("="))
        if not separator or not values or key in axes:
            raise RecipeError(f"a grid is written key=value,value, once for each key, as in {EXAMPLE}; got {text!r}")
        if other := OTHER_OPTIONS.get(key.split(".")[0]):
            raise RecipeError(f"{key!r} cannot be part of a grid; use {other}")
        axes[key] = _values(values)
    return [dict(zip(axes, values, strict=True)) for values in itertools.product(*axes.values())]


def with_values(content: Mapping[str, Any], values: Mapping[str, JsonValue]) -> dict[str, Any]:
    """Return a recipe in the form of plain data with other values; unknown keys are left to the recipe's own check."""
    changed = dict(content)
    for key, value in values.items():
        table, _, last = key.partition(".")
        inner = changed.get(table)
        if last and not isinstance(inner, Mapping):
            raise RecipeError(f"grid key {key!r}: {table} is not a table of the recipe; write keys as in {EXAMPLE}")
        changed[table] = with_values(inner, {last: value}) if last and isinstance(inner, Mapping) else value
    return changed


def _values(text: str) -> list[JsonValue]:
    """Split values at commas, but not inside lists: `[0.5,0.75],[0.9]` has two values."""
    together = parse_value(f"[{text}]")
    return together if isinstance(together, list) else [parse_value(part.strip()) for part in text.split(",")]
