"""Recipes as others may see them: values by key, without the folders of this machine."""

import json
from collections.abc import Mapping
from pathlib import PureWindowsPath

from prunus.recipes import flatten

PATH_KEYS = ("path", "root", "weights")  # keys whose values are paths


def shown_recipe(content: object) -> dict[str, str]:
    """Return a recipe's values as JSON by dotted keys, with paths shortened to their last part."""
    if not isinstance(content, Mapping):
        return {}
    return {key: _shown(key, value) for key, value in flatten(content).items() if value is not None}


def last_part(path: str) -> str:
    """Return the last part of a path of any system."""
    return PureWindowsPath(path).name or path  # splits at both kinds of slashes


def _shown(key: str, value: object) -> str:
    is_path = key.rpartition(".")[2] in PATH_KEYS and isinstance(value, str)
    return json.dumps(last_part(str(value)) if is_path else value, ensure_ascii=False)
