"""The recipe of a row of the grid, as a study trains it."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import prunus
from benchmarks.studies import Study
from benchmarks.study_grid import GRID
from prunus.config import Recipe


def recipe_of(study: Study, name: str, seed: int, domains: Sequence[str]) -> Recipe:
    """Return the recipe of a row of the grid."""
    row = GRID[name]
    is_ours = row.method == "exact"
    training = {**(study.ours if is_ours else study.paper), "epochs": study.epochs * row.epochs, **row.training}
    training["splits"] = "train+validation" if row.split == "test" else "train"
    content: dict[str, object] = {
        "preset": "auto" if is_ours else "paper",
        "backbone": study.backbone,
        "domains": [
            {"path": path, "source": Path(path).stem == study.source}
            for path in domains
            if not (row.source_apart and Path(path).stem == study.source)
        ],
        "method": row.method,
        "seed": seed,
        "training": training,
    }
    if row.budget is not None:
        content["budget"] = row.budget
    return prunus.parse_recipe(json.loads(json.dumps(content | dict(row.choice))))
