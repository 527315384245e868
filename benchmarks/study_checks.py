"""Whether the stored runs of the study are those of the grid: a run whose recipe has changed since says nothing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from pydantic import JsonValue

import prunus
from benchmarks.studies import Study
from benchmarks.study_recipes import recipe_of
from benchmarks.study_results import Runs, StudyRun
from prunus.config import Recipe
from prunus.recipes import recipe_differences


def portable(recipe: Recipe) -> dict[str, JsonValue]:
    """Return a recipe without the folders of this machine."""
    content: dict[str, JsonValue] = recipe.model_dump(mode="json", exclude={"domains"})
    content["domains"] = [
        choice.model_dump(mode="json") | {"path": Path(choice.path).name} for choice in recipe.domains
    ]
    return content


def stale(runs: Runs, recipes: Mapping[tuple[str, int], Recipe]) -> list[str]:
    """Say how the recipes of stored runs differ from those that the grid has now: `key: stored -> now`."""
    found = []
    for key, recipe in recipes.items():
        if key in runs:
            # both are read anew, so a setting that a newer version has added does not count as a difference
            stored, now = (prunus.parse_recipe(content) for content in (runs[key].recipe, portable(recipe)))
            found += [f"{runs[key].file}: {text}" for text in recipe_differences(stored, now)]
    return found


def refuse_stale(differences: Sequence[str], out: Path) -> None:
    """Stop if stored runs have other recipes."""
    if differences:
        raise SystemExit(
            f"stored runs of {out} were trained with other recipes than those of benchmarks/study_grid.py and "
            "benchmarks/studies.py (stored -> now). Remove their files to train them again, or name another folder "
            "with --out:\n" + "\n".join(differences)
        )


def own_recipe(study: Study, run: StudyRun) -> Recipe:
    """Return the recipe that a stored run should have; if the study names no domains, those of the run count."""
    domains = study.domains or [choice.path for choice in prunus.parse_recipe(run.recipe).domains]
    return recipe_of(study, run.name, run.seed, domains)
