"""What measuring knows of a method is what the table of methods says, read without it."""

import pytest

from prunus.evaluation.traits import Traits, method_traits
from prunus.methods.table import METHODS, choose_method, with_method
from prunus.recipes import parse_recipe


def _recipe(**changes: object) -> dict[str, object]:
    return {"backbone": "wrn14_2", "domains": ["one"], **changes}


@pytest.mark.parametrize("name", METHODS)
def test_the_traits_of_every_method_are_those_of_the_table(name: str) -> None:
    plain = parse_recipe(_recipe(method=name))
    chosen = choose_method(plain)
    method = chosen.method
    expected = Traits(
        name,
        dict(chosen.options),
        chosen.sharing,
        method.masked,
        method.has_budget,
        method.keeps_budget,
    )
    assert method_traits(plain) == expected
    assert method_traits(with_method(plain)) == expected  # as a trained run has it


def test_options_of_the_recipe_and_its_sharing_loss_come_before_those_of_the_method() -> None:
    recipe = parse_recipe(_recipe(method={"name": "ba2", "granularity": "filter"}, sharing={"loss": "soft_overlap"}))
    traits = method_traits(recipe)
    assert (traits.options["granularity"], traits.granularity, traits.sharing) == ("filter", "filter", "soft_overlap")


def test_a_recipe_without_a_method_has_that_of_its_preset_and_granularity() -> None:
    traits = method_traits(parse_recipe(_recipe(granularity="filter", preset="paper")))
    assert (traits.name, traits.granularity) == ("union", "filter")
