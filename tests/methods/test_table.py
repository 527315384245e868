"""The choice of a method by a recipe: defaults, sharing losses, options, and what does not fit together."""

import pytest

from prunus.config import Recipe
from prunus.errors import RecipeError, UnknownNameError
from prunus.methods.table import choose_method, find_method, with_method
from prunus.recipes import parse_recipe


def _recipe(**keys: object) -> Recipe:
    return parse_recipe({"backbone": "wrn14_2", "domains": ["a"], **keys})


@pytest.mark.parametrize(
    ("keys", "name", "sharing", "weight"),
    [
        ({}, "exact", None, "learned"),
        ({"preset": "paper"}, "union", "union", "learned"),
        ({"sharing": {"weight": 0.5}}, "union", "union", 0.5),
        ({"sharing": {"loss": "jaccard"}}, "jaccard", "jaccard", "learned"),
        ({"sharing": {"loss": "soft_overlap"}}, "ba2", "soft_overlap", 0.1),
        ({"sharing": {"loss": "union", "weight": 0.5}}, "union", "union", 0.5),
        ({"method": "ba2"}, "ba2", None, "learned"),
        ({"method": "piggyback", "sharing": {"loss": "soft_overlap", "weight": 2.0}}, "piggyback", "soft_overlap", 2.0),
    ],
)
def test_a_recipe_selects_a_method_and_its_sharing_loss(
    keys: dict[str, object], name: str, sharing: str | None, weight: float | str
) -> None:
    chosen = choose_method(_recipe(**keys))
    assert (chosen.name, chosen.sharing, chosen.weight) == (name, sharing, weight)


@pytest.mark.parametrize(
    ("keys", "message"),
    [
        ({"method": "bn", "sharing": {"loss": "union"}}, "method 'bn' has no switches to share; remove [sharing]"),
        (
            {"method": "ba2", "sharing": {"loss": "union"}},
            "does not use the sharing loss 'union'; use method = ",
        ),
        ({"method": "union", "sharing": {"loss": "soft_overlap"}}, 'use method = "ba2", or remove sharing.loss'),
        ({"method": "piggyback", "sharing": {"loss": "union"}}, "its sharing loss must be 'soft_overlap', got 'union'"),
        (
            {"method": "ba2", "sharing": {"weight": 0.5}},
            "has no sharing loss; remove sharing.weight or set",
        ),
        ({"sharing": {"loss": "soft_overlap", "weight": "learned"}}, "set sharing.weight to a number"),
        ({"method": "bn", "granularity": "filter"}, "method 'bn' does not support granularity = 'filter'"),
        ({"method": {"name": "taps", "sparsity": -1.0}}, "recipe key 'method.sparsity': Input should be greater than"),
    ],
)
def test_keys_that_contradict_each_other_are_refused(keys: dict[str, object], message: str) -> None:
    with pytest.raises(RecipeError) as error:
        choose_method(_recipe(**keys))
    assert message in str(error.value)


def test_unknown_names_are_answered_with_the_nearest() -> None:
    with pytest.raises(UnknownNameError, match="unknown method 'unoin'; did you mean 'union'"):
        find_method("unoin")
    with pytest.raises(UnknownNameError, match="unknown taps option 'sparsty'; did you mean 'sparsity'"):
        choose_method(_recipe(method={"name": "taps", "sparsty": 1.0}))


def test_a_recipe_with_everything_spelt_out_selects_the_same_method() -> None:
    for keys in ({}, {"granularity": "filter"}, {"method": "taps"}, {"sharing": {"loss": "soft_overlap"}}):
        recipe = _recipe(**keys)
        explicit = with_method(recipe)
        assert choose_method(explicit) == choose_method(recipe)
        assert explicit.method is not None
        assert explicit.granularity is None
        assert with_method(explicit) == explicit
