"""Plan a comparison or a sweep: which methods to train, with which options, budgets and seeds."""

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from pydantic import JsonValue

from prunus.backbone.zoo import load_backbone
from prunus.comparison.grid import parse_grid, with_values
from prunus.config import Recipe
from prunus.data.domains import SPLITS, UNLABELLED
from prunus.data.layouts import open_domain
from prunus.errors import DataError, RecipeError, UnknownNameError
from prunus.losses.sharing import PENALTIES
from prunus.measure.score import FEATURE, FINETUNE
from prunus.methods.table import METHODS, adapt, choose_method, default_weight, with_method
from prunus.recipes import parse_recipe, parse_value
from prunus.training.planning import check_recipe

ALL = "all"
REQUIRED = (FEATURE, FINETUNE)  # the scores compare with them
Values = Mapping[str, JsonValue]


@dataclass(frozen=True)
class Entry:
    """A planned training run.

    Args:
        name: also the name of its folder; the recipe's own seed is not part of it.
        group: method, options and budget: the name of its row, which all its seeds share.
        options: settings in which it differs from the method's defaults, and the values of a grid.
    """

    name: str
    recipe: Recipe
    group: str
    options: dict[str, JsonValue]


@dataclass(frozen=True)
class Choices:
    """What to combine; what is empty is the recipe's own.

    Args:
        methods: names, also with options such as `taps:sparsity=0.5`; `all` is every one.
        grid: recipe keys and their values, such as `training.lr=0.01,0.05`.
    """

    methods: Sequence[str] = ()
    budgets: Sequence[float] = ()
    seeds: Sequence[int] = ()
    grid: Sequence[str] = ()


def plan_comparison(
    recipe: Recipe, methods: Sequence[str], budgets: Sequence[float], seeds: Sequence[int] = ()
) -> list[Entry]:
    """Plan what `compare` trains, which includes the methods that the scores compare with."""
    if not _names(methods) or not budgets:
        raise RecipeError("name at least one method and one budget")
    return plan_trials(recipe, Choices(methods, budgets, seeds), REQUIRED)


def plan_trials(recipe: Recipe, choices: Choices, required: Sequence[str] = ()) -> list[Entry]:
    """List the recipes to train, in the order of the table; every method is built once to find errors early."""
    grid = parse_grid(choices.grid)
    entries: dict[str, Entry] = {}
    for name, settings in _variants(recipe, choices.methods, required):
        budgets = choices.budgets or (recipe.budget.model_dump(mode="json"),)
        for budget, values in itertools.product(budgets if METHODS[name].has_budget else (None,), grid):
            for entry in _seeded(recipe, _entry(recipe, name, settings, budget, values), choices.seeds):
                entries[entry.name] = entry
    planned = list(entries.values())
    _check(planned)
    return planned


def check_data(recipe: Recipe, split: str) -> None:
    """Refuse to train if no domain could be measured afterwards; domains without labelled images are skipped then."""
    if split not in SPLITS:
        raise UnknownNameError("split", split, SPLITS)
    for choice in recipe.domains:
        items = open_domain(choice, recipe.training.validation_share).split(split)
        if items and all(item.label != UNLABELLED for item in items):
            return
    names = ", ".join(repr(choice.name) for choice in recipe.domains)
    raise DataError(f"the {split} images of {names} are missing or have no labels; use the argument split='validation'")


def changed_options(recipe: Recipe) -> dict[str, JsonValue]:
    """List the options, sharing loss and weight that differ from the method's defaults."""
    chosen = choose_method(recipe)
    changed: dict[str, JsonValue] = chosen.options.model_dump(mode="json", exclude_defaults=True)
    if chosen.sharing != chosen.method.sharing:
        changed["sharing"] = chosen.sharing
    if chosen.sharing and chosen.weight != default_weight(chosen.sharing):
        changed["weight"] = chosen.weight
    return changed


def _names(methods: Sequence[str]) -> list[str]:
    return [name.strip() for text in methods for name in text.split(",") if name.strip()]


def _variants(recipe: Recipe, methods: Sequence[str], required: Sequence[str]) -> list[tuple[str, Values]]:
    """List methods with their settings in the order of the methods' table; the recipe's own if none is named."""
    if not methods:
        return [(choose_method(recipe).name, changed_options(recipe))]
    if recipe.sharing.loss in PENALTIES:
        raise RecipeError(
            f"a comparison takes the loss from its methods; name it there, as in ba2:sharing={recipe.sharing.loss}"
        )
    expanded = [name for text in _names(methods) for name in (METHODS if text == ALL else (text,))]
    variants = [_split(name) for name in (*required, *expanded)]
    return sorted(variants, key=lambda variant: list(METHODS).index(variant[0]))


def _split(variant: str) -> tuple[str, Values]:
    """Split `taps:sparsity=0.5` into a name and settings."""
    name, *parts = (part.strip() for part in variant.split(":"))
    if name not in METHODS:
        raise UnknownNameError("method", name, [*METHODS, ALL])
    settings: dict[str, JsonValue] = {}
    for part in parts:
        key, separator, value = (text.strip() for text in part.partition("="))
        if not separator or key in settings or key in ("name", "budget"):
            raise RecipeError(
                f"an option is written method:key=value, once each, got {variant!r}; for example taps:sparsity=0.5 "
                "(budgets go into the argument budgets)"
            )
        settings[key] = parse_value(value)
    return name, settings


def _entry(recipe: Recipe, name: str, settings: Values, budget: JsonValue, grid: Values) -> Entry:
    """Replace the method, sharing loss and budget of a recipe, and the keys of a grid."""
    values = dict(settings)
    content = recipe.model_dump(mode="json", exclude={"method", "sharing", "budget"})
    sharing = {"loss" if key == "sharing" else key: values.pop(key) for key in ("sharing", "weight") if key in values}
    if recipe.sharing.loss in (None, METHODS[name].sharing) and METHODS[name].sharing:
        sharing = recipe.sharing.model_dump(mode="json", exclude={"loss"}) | sharing
    if "granularity" not in METHODS[name].options.model_fields:
        del content["granularity"]
    if content["training"]["weight_lr"] is None:  # the rate of heads and norms would be far too low for weights
        content["training"]["weight_lr"] = METHODS[name].weight_lr
    if METHODS[name].holds_out:
        content["training"]["splits"] = "train"
    if not METHODS[name].packable:
        content["training"].pop("quantize", None)
    content |= {"method": {"name": name, **values}, "sharing": sharing}
    if budget is not None:
        content["budget"] = budget
    planned = with_method(parse_recipe(with_values(content, grid)))
    options = changed_options(planned) | dict(grid)
    parts = [f"{key}={value}".replace("/", "_") for key, value in options.items()]
    group = "-".join([name, *parts, *([] if budget is None else [planned.budget.label])])
    return Entry(group, planned, group, options)


def _seeded(recipe: Recipe, entry: Entry, seeds: Sequence[int]) -> Iterator[Entry]:
    """Repeat an entry with every seed."""
    for seed in seeds or (recipe.seed,):
        content = entry.recipe.model_dump(mode="json") | {"seed": seed}
        # the recipe's own seed keeps the folder that a single run has, so that seeds can be added later
        name = entry.group if seed == recipe.seed else f"{entry.group}-seed{seed}"
        yield Entry(name, parse_recipe(content), entry.group, entry.options)


def _check(entries: Sequence[Entry]) -> None:
    """Build every method once, which refuses options that do not fit the network."""
    backbones = {backbone: load_backbone(backbone) for backbone in {entry.recipe.backbone for entry in entries}}
    for entry in {entry.group: entry for entry in entries}.values():
        check_recipe(entry.recipe)
        chosen = choose_method(entry.recipe)
        adapt(backbones[entry.recipe.backbone], {"domain": ("a", "b")}, chosen.name, options=chosen.options)
