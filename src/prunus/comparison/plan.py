"""Plan a comparison: which methods to train, with which options and budgets."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from pydantic import JsonValue

from prunus.backbone.zoo import load_backbone
from prunus.config import Recipe
from prunus.data.domains import SPLITS, UNLABELLED
from prunus.data.layouts import open_domain
from prunus.errors import DataError, RecipeError, UnknownNameError
from prunus.losses.sharing import PENALTIES
from prunus.measure.score import FEATURE, FINETUNE
from prunus.methods.table import METHODS, adapt, choose_method, default_weight, with_method
from prunus.recipes import parse_recipe, parse_value
from prunus.training.run import check_recipe

ALL = "all"
REQUIRED = (FEATURE, FINETUNE)  # the scores compare with them


@dataclass(frozen=True)
class Entry:
    """A planned row: its name, which is also its folder's, and the recipe to train."""

    name: str
    recipe: Recipe


def plan_comparison(recipe: Recipe, methods: Sequence[str], budgets: Sequence[float]) -> list[Entry]:
    """List the recipes to train, in the order of the table; every method is built once to find errors early."""
    names = [name.strip() for text in methods for name in text.split(",") if name.strip()]
    if not names or not budgets:
        raise RecipeError("name at least one method and one budget")
    if recipe.sharing.loss in PENALTIES:
        raise RecipeError(
            f"a comparison takes the loss from its methods; name it there, as in ba2:sharing={recipe.sharing.loss}"
        )
    expanded = [name for text in names for name in (METHODS if text == ALL else (text,))]
    variants = [_split(name) for name in (*REQUIRED, *expanded)]
    variants.sort(key=lambda variant: list(METHODS).index(variant[0]))
    entries: dict[str, Entry] = {}
    for name, settings in variants:
        for budget in budgets if METHODS[name].has_budget else (None,):
            entry = _entry(recipe, name, settings, budget)
            entries[entry.name] = entry
    backbone = load_backbone(recipe.backbone)
    for entry in entries.values():
        check_recipe(entry.recipe)
        chosen = choose_method(entry.recipe)
        adapt(backbone, {"domain": ("a", "b")}, chosen.name, options=chosen.options)
    return list(entries.values())


def check_data(recipe: Recipe, split: str) -> None:
    """Refuse domains that cannot be measured before anything is trained."""
    if split not in SPLITS:
        raise UnknownNameError("split", split, SPLITS)
    for choice in recipe.domains:
        items = open_domain(choice, recipe.training.validation_share).split(split)
        if not items or any(item.label == UNLABELLED for item in items):
            raise DataError(
                f"the {split} images of {choice.name!r} are missing or have no labels; use --split validation"
            )


def changed_options(recipe: Recipe) -> dict[str, JsonValue]:
    """List the options, sharing loss and weight that differ from the method's defaults."""
    chosen = choose_method(recipe)
    changed: dict[str, JsonValue] = chosen.options.model_dump(mode="json", exclude_defaults=True)
    if chosen.sharing != chosen.method.sharing:
        changed["sharing"] = chosen.sharing
    if chosen.sharing and chosen.weight != default_weight(chosen.sharing):
        changed["weight"] = chosen.weight
    return changed


def _split(variant: str) -> tuple[str, dict[str, str]]:
    """Split `taps:sparsity=0.5` into a name and settings."""
    name, *parts = (part.strip() for part in variant.split(":"))
    if name not in METHODS:
        raise UnknownNameError("method", name, [*METHODS, ALL])
    settings: dict[str, str] = {}
    for part in parts:
        key, separator, value = (text.strip() for text in part.partition("="))
        if not separator or key in settings or key in ("name", "budget"):
            raise RecipeError(
                f"an option is written method:key=value, once each, got {variant!r}; for example taps:sparsity=0.5 "
                "(budgets go into --budgets)"
            )
        settings[key] = value
    return name, settings


def _entry(recipe: Recipe, name: str, settings: Mapping[str, str], budget: float | None) -> Entry:
    """Replace the method, sharing loss and budget of a recipe."""
    values = {key: parse_value(value) for key, value in settings.items()}
    content = recipe.model_dump(mode="json", exclude={"method", "sharing", "budget"})
    sharing = {"loss" if key == "sharing" else key: values.pop(key) for key in ("sharing", "weight") if key in values}
    if recipe.sharing.loss in (None, METHODS[name].sharing) and METHODS[name].sharing:
        sharing = {"weight": recipe.sharing.weight} | sharing
    if "granularity" not in METHODS[name].options.model_fields:
        del content["granularity"]
    content |= {"method": {"name": name, **values}, "sharing": sharing} | ({} if budget is None else {"budget": budget})
    planned = with_method(parse_recipe(content))
    options = [f"{key}={value}" for key, value in changed_options(planned).items()]
    return Entry("-".join([name, *options, *([] if budget is None else [f"{budget:.12g}"])]), planned)
