"""The table of methods, the choice of one by a recipe, and its application to a backbone."""

import copy
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

import torch
from pydantic import ValidationError
from torch import nn

from prunus.backbone.zoo import Backbone
from prunus.config import MethodChoice, Recipe, Settings, Sharing
from prunus.errors import RecipeError, UnknownNameError
from prunus.granularity import AUTO
from prunus.losses.sharing import PENALTIES
from prunus.masks.layout import resolved
from prunus.masks.network import MultiDomainNet
from prunus.methods import (
    adapters,
    baselines,
    da3,
    early_exits,
    exact,
    hard_sharing,
    kernel_switches,
    modulation,
    taps,
    weight_masks,
)
from prunus.methods.method import Method
from prunus.presets import METHODS as DEFAULTS

METHODS: dict[str, Method] = {
    "exact": exact.METHOD,
    "feature": baselines.FEATURE,
    "bn": baselines.BN,
    "finetune": baselines.FINETUNE,
    "ba2": kernel_switches.BA2,
    "ba2_individual": kernel_switches.BA2_INDIVIDUAL,
    "intersection": kernel_switches.INTERSECTION,
    "union": kernel_switches.UNION,
    "jaccard": kernel_switches.JACCARD,
    "piggyback": weight_masks.PIGGYBACK,
    "weight_transform": weight_masks.WEIGHT_TRANSFORM,
    "affine_masks": weight_masks.AFFINE_MASKS,
    "series_adapters": adapters.SERIES,
    "parallel_adapters": adapters.PARALLEL,
    "modulation": modulation.METHOD,
    "taps": taps.METHOD,
    "hard_sharing": hard_sharing.METHOD,
    "early_exits": early_exits.METHOD,
    "da3": da3.METHOD,
}
WEIGHTED = "union"  # what a weight of sharing without a loss refers to


@dataclass(frozen=True)
class ChosenMethod:
    """The method of a recipe, its options and its sharing loss."""

    name: str
    method: Method
    options: Settings
    sharing: str | None
    weight: float | Literal["learned"]
    freezes_others: bool = False


def find_method(name: str) -> Method:
    """Return a method by name."""
    if name not in METHODS:
        raise UnknownNameError("method", name, METHODS)
    return METHODS[name]


def choose_method(recipe: Recipe) -> ChosenMethod:
    """Return a recipe's method with its options and sharing loss; without a method, the sharing loss selects it."""
    loss = recipe.sharing.loss
    if recipe.method is None:
        name = _implied(recipe)
        return _chosen(name, parse_options(MethodChoice(name=name), recipe.granularity), recipe.sharing)
    name = recipe.method.name
    method = find_method(name)
    if recipe.sharing != type(recipe.sharing)() and not method.masked:
        raise RecipeError(f"method {name!r} has no switches to share; remove [sharing]")
    if loss is not None and method.has_budget and loss != method.sharing and (loss in METHODS or method.sharing):
        advice = f'use method = "{loss}"' if loss in METHODS else 'use method = "ba2"'
        raise RecipeError(f"method {name!r} does not use the sharing loss {loss!r}; {advice}, or remove sharing.loss")
    if loss is not None and not method.has_budget and loss not in PENALTIES:
        allowed = ", ".join(map(repr, PENALTIES))
        raise RecipeError(f"method {name!r} has no budget; its sharing loss must be {allowed}, got {loss!r}")
    return _chosen(name, parse_options(recipe.method, recipe.granularity), recipe.sharing)


def _implied(recipe: Recipe) -> str:
    loss = recipe.sharing.loss
    if loss is None:
        return DEFAULTS[recipe.preset] if recipe.sharing.weight is None else WEIGHTED
    return loss if loss in METHODS else "ba2"


def _chosen(name: str, options: Settings, sharing: Sharing) -> ChosenMethod:
    loss = sharing.loss or METHODS[name].sharing
    if loss is None and sharing.weight is not None:
        raise RecipeError(f"method {name!r} has no sharing loss; remove sharing.weight or set sharing.loss")
    weight = sharing.weight or default_weight(loss)
    if loss in PENALTIES and weight == "learned":
        raise RecipeError(f"the weight of {loss!r} cannot be learned; set sharing.weight to a number")
    if loss is None and sharing.freeze_others:
        raise RecipeError(f"method {name!r} has no sharing loss; remove sharing.freeze_others or set sharing.loss")
    return ChosenMethod(name, METHODS[name], options, loss, weight, sharing.freeze_others)


def default_weight(loss: str | None) -> float | Literal["learned"]:
    """Return the default weight of a sharing loss."""
    return PENALTIES.get(loss or "", "learned")


def with_method(recipe: Recipe) -> Recipe:
    """Write a recipe's method, options and sharing loss explicitly, so later changes of defaults do not affect it."""
    chosen = choose_method(recipe)
    choice = MethodChoice.model_validate({"name": chosen.name, **chosen.options.model_dump()})
    weight = chosen.weight if chosen.sharing else None
    sharing = Sharing(loss=chosen.sharing, weight=weight, freeze_others=chosen.freezes_others)
    return recipe.model_copy(update={"method": choice, "sharing": sharing, "granularity": None})


def with_granularity(recipe: Recipe, network: nn.Module) -> Recipe:
    """Write the granularity that "auto" stands for into a recipe that names its method."""
    choice = recipe.method
    if choice is None or choice.options.get("granularity") != AUTO:
        return recipe
    changed = {"name": choice.name, **choice.options, "granularity": resolved(AUTO, network)}
    return recipe.model_copy(update={"method": MethodChoice.model_validate(changed)})


def parse_options(choice: MethodChoice, granularity: str | None = None) -> Settings:
    """Validate the options of a recipe's method; the recipe's granularity is one of them."""
    model = find_method(choice.name).options
    options = choice.options
    if granularity is not None:
        if "granularity" not in model.model_fields or options.get("granularity", granularity) != granularity:
            raise RecipeError(
                f"method {choice.name!r} does not support granularity = {granularity!r}; remove one of them"
            )
        options["granularity"] = granularity
    try:
        return model.model_validate(options)
    except ValidationError as error:
        first = error.errors()[0]
        key = ".".join(map(str, first["loc"]))
        if first["type"] == "extra_forbidden":
            raise UnknownNameError(f"{choice.name} option", key, model.model_fields) from None
        raise RecipeError(f"recipe key 'method.{key}': {first['msg']}, got {first['input']!r}") from None


def adapt(
    backbone: Backbone,
    classes: Mapping[str, Sequence[str]],
    method: str,
    seed: int = 0,
    options: Settings | None = None,
) -> MultiDomainNet:
    """Adapt a backbone to several domains (name -> class names) with one of the methods."""
    chosen = find_method(method)
    backbone = replace(backbone, network=copy.deepcopy(backbone.network))  # the caller's network stays unchanged
    with torch.random.fork_rng(devices=[]):  # initial values do not depend on earlier random numbers
        torch.manual_seed(seed)
        built = chosen.build(backbone, [len(names) for names in classes.values()], options or chosen.options())
        torch.manual_seed(seed)  # heads have the same initial values in every method
        return MultiDomainNet(backbone.network, backbone.probe.num_features, classes, built, backbone.preprocess.size)
