"""The recipe that learns one more domain inside a model file."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from pydantic import ValidationError

from prunus.bundle.bundle import Bundle
from prunus.config import BackboneChoice, Budget, Recipe
from prunus.editing.provenance import recorded_recipe
from prunus.errors import BundleError, RecipeError
from prunus.graph.limits import MAX_DOMAINS
from prunus.names import domain_name_problem
from prunus.recipes import TRAINED_FIRST, parse_recipe, with_overrides

CHANGEABLE = ("training.", "evaluation.", "method.until", "seed", "skip_bad_images")
TEACHER_EPOCHS = 25  # a whole network learns one domain faster than masks and norms do


@dataclass(frozen=True)
class Addition:
    """What is added to a model file.

    Args:
        images: folder or zip file of the domain's images.
        name: of the domain (default: that of the folder).
        grow: share of the original network's kernels that the domain may add to the file.
        weights: file of the original network's weights, unless they are bundled.
    """

    images: str
    name: str | None = None
    grow: str | float | None = None
    weights: str | None = None


def addition_recipe(model: Path, bundle: Bundle, addition: Addition, overrides: Sequence[str] = ()) -> Recipe:
    """Return the recipe of a domain that learns masks, norms and a classifier inside a model file.

    Args:
        overrides: changes of the recipe, such as `training.epochs=5`.
    """
    grow = None if addition.grow is None else _share(addition.grow)
    domain = {"path": addition.images} | _named(addition.name)
    content: dict[str, object] = {
        "backbone": {"name": str(model)} | ({"original": addition.weights or "pretrained"} if grow else {}),
        "domains": [domain],
        "method": {"name": "exact", "weights": "trained"} if grow else _inside(bundle),
        "budget": grow or 1.0,
        "dtype": bundle.dtype,
    }
    if isinstance(overrides, str):
        raise RecipeError(f"settings must be a list, as in ['training.epochs=10']; got the text {overrides!r}")
    for override in overrides:
        if not override.strip().startswith(CHANGEABLE):
            raise RecipeError(
                f"a domain that is added cannot change {override.partition('=')[0].strip()!r}; "
                f"its settings begin with {', '.join(CHANGEABLE)}"
            )
    return parse_recipe(with_overrides(content, overrides), Path.cwd())


def _share(grow: str | float) -> float:
    """Return the share of kernels that may be added."""
    try:
        share = Budget.model_validate({"kernels": grow}).kernels
    except ValidationError:
        share = None
    if share is None:
        raise RecipeError(
            f"the argument grow must be a share of the original network's kernels above 0, such as 5%; got {grow!r}"
        )
    return share


def _named(name: str | None) -> dict[str, str]:
    if name is not None and (problem := domain_name_problem(name)):
        raise RecipeError(problem)
    return {} if name is None else {"name": name}


def _inside(bundle: Bundle) -> dict[str, str]:
    """Return the method of a domain that adds no kernels: in a file of blocks, it uses whole blocks too."""
    recipe = recorded_recipe(bundle.manifest.provenance) or {}
    method = recipe.get("method")
    has_blocks = isinstance(method, dict) and method.get("granularity") == "1x4"
    return {"name": "exact", "weights": "frozen"} | ({"granularity": "1x4"} if has_blocks else {})


def teacher_of(recipe: Recipe, original: BackboneChoice) -> Recipe:
    """Return the recipe of a network that is fine-tuned for the new domain and then teaches it."""
    content = recipe.model_dump(mode="json", include={"domains", "seed", "skip_bad_images"})
    kept = recipe.training.model_dump(mode="json", include={"batch_size", "splits", "validation_share", "augment"})
    kept["epochs"] = recipe.training.epochs or TEACHER_EPOCHS
    content |= {"backbone": original.model_dump(mode="json"), "method": TRAINED_FIRST, "budget": 1.0, "training": kept}
    return parse_recipe(content)


def check_name(bundle: Bundle, name: str, is_replaced: bool) -> None:
    """Refuse a name that the model already has, or one that it lacks if that domain is to be replaced."""
    if is_replaced:
        bundle.check_domain(name)
        return
    if len(bundle.domains) >= MAX_DOMAINS:
        raise BundleError(f"the model has {len(bundle.domains)} domains, and no model file may have more")
    if name in bundle.manifest.domains:
        raise BundleError(
            f"the model already has a domain {name!r}; pass another name, or train it again with "
            "the argument replace=True"
        )
    if alike := [known for known in bundle.domains if known.casefold() == name.casefold()]:
        raise BundleError(
            f"the model already has a domain {alike[0]!r}, and files are named after domains; pass a name that differs "
            "in more than case"
        )
