"""What measuring must know of the method of a recipe."""

from dataclasses import dataclass

from pydantic import JsonValue, TypeAdapter

from prunus.catalog import find_described
from prunus.config import Recipe
from prunus.granularity import AUTO

OPTIONS = TypeAdapter(dict[str, JsonValue])


@dataclass(frozen=True)
class Traits:
    """The method of a recipe, and how its costs and its budget are counted.

    Args:
        sharing: its sharing loss, if it has one.
        masked: whether it has switches.
        keeps_budget: whether the budget limits all domains together.
    """

    name: str
    options: dict[str, JsonValue]
    sharing: str | None
    masked: bool
    has_budget: bool
    keeps_budget: bool

    @property
    def granularity(self) -> str:
        """Return what one switch is for, as a trained recipe names it."""
        return str(self.options.get("granularity", "kernel")).replace(AUTO, "kernel")


def method_traits(recipe: Recipe) -> Traits:
    """Return the traits of a recipe's method, without torch if the recipe names it as every trained recipe does."""
    described = find_described(recipe.method.name) if recipe.method else None
    if recipe.method is None or described is None or recipe.granularity is not None:
        return _of_table(recipe)
    defaults = {key: option.default for key, option in described.options.items()}
    return Traits(
        described.name,
        defaults | OPTIONS.validate_python(recipe.method.options),
        recipe.sharing.loss or described.sharing,
        described.masked,
        described.has_budget,
        described.keeps_budget,
    )


def _of_table(recipe: Recipe) -> Traits:
    from prunus.methods.table import choose_method  # noqa: PLC0415  # needs torch

    chosen = choose_method(recipe)
    method = chosen.method
    options = OPTIONS.validate_python(dict(chosen.options))
    return Traits(chosen.name, options, chosen.sharing, method.masked, method.has_budget, method.keeps_budget)
