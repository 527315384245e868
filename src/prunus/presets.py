"""Presets: settings that fill in what a recipe leaves out."""

from collections.abc import Mapping
from typing import Literal

from pydantic import BaseModel

Preset = Literal["auto", "paper"]

METHODS: dict[Preset, str] = {"auto": "exact", "paper": "union"}  # unless the sharing loss of a recipe implies another
PAPER_TRAINING: dict[str, object] = {
    "epochs": 60,
    "batch_size": 32,
    "lr": 1e-3,
    "weight_lr": None,
    "weight_decay": 0.0,
    "momentum": 0.9,
    "switch_lr": 1e-4,
    "dual_rate": 1.0,
    "schedule": "step",
    "warmup_epochs": 0.0,
    "lr_drops": [0.75],
    "lr_drop_factor": 0.1,
    "label_smoothing": 0.0,
    "strategy": "round_robin",
}


def with_preset(content: Mapping[str, object]) -> dict[str, object]:
    """Fill in the training settings of a recipe's preset; keys of the recipe itself take precedence.

    The method is no key to fill in, since it may follow from the sharing loss. Only a table of options gets the name.
    """
    filled = dict(content)
    preset = filled.get("preset", "auto")
    method = filled.get("method")
    if isinstance(method, Mapping) and "name" not in method and not filled.get("sharing") and preset in METHODS:
        filled["method"] = {"name": METHODS[preset], **method}
    if preset != "paper":
        return filled
    training = _content(filled.get("training", {}))
    if training is not None:  # any other type is refused by the validation
        filled["training"] = PAPER_TRAINING | training
    return filled


def of_any_version(stored: Mapping[str, object]) -> dict[str, object]:
    """Return the content of a stored recipe; earlier versions knew no presets, and their defaults were the paper's."""
    return {"preset": "paper", **stored}


def _content(value: object) -> dict[str, object] | None:
    """Return the keys that are set in a table, which may have been validated already."""
    if isinstance(value, BaseModel):
        return value.model_dump(mode="json", exclude_unset=True)
    return dict(value) if isinstance(value, Mapping) else None
