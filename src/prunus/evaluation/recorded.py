"""Read the recipe that a model file records."""

from pathlib import Path

from prunus.bundle.bundle import Bundle
from prunus.config import Recipe
from prunus.errors import BundleError, PrunusError
from prunus.evaluation.traits import method_traits
from prunus.presets import of_any_version
from prunus.recipes import parse_recipe


def recipe_of_file(bundle: Bundle, file: Path) -> Recipe | None:
    """Return the recipe that a model file records; None if it records none, or something else in its place."""
    content = bundle.manifest.provenance.get("recipe")
    if not isinstance(content, dict) or not content:
        return None
    try:
        recipe = parse_recipe(of_any_version(content))
        method_traits(recipe)  # refuses unknown methods and options
    except PrunusError as error:
        raise BundleError(f"{file} records a recipe that cannot be read: {error}") from None
    return recipe


def recipe_of_domains(bundle: Bundle, file: Path, purpose: str) -> Recipe:
    """Return the recipe that a model file records, of which it must have every domain.

    Args:
        purpose: what cannot be done without, as in "cannot be measured".
    """
    recipe = recipe_of_file(bundle, file)
    if recipe is None:
        raise BundleError(f"{file} does not record its recipe and {purpose}")
    for choice in recipe.domains:
        if choice.name not in bundle.manifest.domains:
            raise BundleError(f"{file} records a domain {choice.name!r} that it does not have, and {purpose}")
    return recipe
