"""What public functions accept for a recipe, a run folder and a model file."""

import os
import reprlib
from pathlib import Path
from typing import TypeAlias

from prunus.config import Recipe
from prunus.errors import RecipeError
from prunus.files import as_path
from prunus.recipes import load_recipe
from prunus.runtime.predictor import Predictor

RecipeLike: TypeAlias = Recipe | str | os.PathLike[str]
ModelLike: TypeAlias = Predictor | str | os.PathLike[str]


def as_recipe(recipe: object) -> Recipe:
    """Return a recipe, or read the file that a caller named instead of it."""
    if isinstance(recipe, Recipe):
        return recipe
    if not isinstance(recipe, (str, os.PathLike)):
        raise RecipeError(
            f"a recipe must be the path of a TOML file or a prunus.Recipe, got {reprlib.repr(recipe)}; "
            "prunus.parse_recipe makes a recipe of a dictionary"
        )
    return load_recipe(Path(os.fspath(recipe)))


def run_folder_for(recipe: object, out: object) -> Path:
    """Return the folder of a new run: `runs/NAME` for the recipe file NAME.toml, unless the caller names one."""
    if out is None and isinstance(recipe, Recipe):
        raise RecipeError("name the folder of the new run, as in prunus.train(recipe, 'runs/first')")
    return Path("runs") / as_path(recipe, "a recipe").stem if out is None else as_path(out, "the folder of a run")


def model_path(model: object) -> Path:
    """Return the path of a model file, or that of the file that a predictor has loaded."""
    return model.path if isinstance(model, Predictor) else as_path(model, "a model file")
