"""A grid: every combination of values, read as overrides are."""

import pytest

from prunus.comparison.grid import parse_grid, with_values
from prunus.errors import RecipeError


def test_every_combination_is_listed_in_order() -> None:
    grid = parse_grid(["training.lr=0.01, 0.05", "granularity=kernel,filter"])
    assert grid == [
        {"training.lr": 0.01, "granularity": "kernel"},
        {"training.lr": 0.01, "granularity": "filter"},
        {"training.lr": 0.05, "granularity": "kernel"},
        {"training.lr": 0.05, "granularity": "filter"},
    ]
    assert parse_grid([]) == [{}]


def test_lists_are_values() -> None:
    assert parse_grid(["training.lr_drops=[0.5,0.75],[0.9]"]) == [
        {"training.lr_drops": [0.5, 0.75]},
        {"training.lr_drops": [0.9]},
    ]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("training.lr", "a grid is written key=value,value"),
        ("training.lr=", "a grid is written key=value,value"),
        ("budget=0.5", "'budget' cannot be part of a grid; use the argument budgets"),
        ("seed=1", "use the argument seeds"),
        ("method.sparsity=1", "use the argument methods, as in taps:sparsity=0.5"),
        ("sharing.weight=1", "use the argument methods, as in ba2:sharing="),
        ("domains.0.mirror=true", "all trials share their domains"),
    ],
)
def test_what_is_not_a_grid_is_refused(text: str, message: str) -> None:
    with pytest.raises(RecipeError) as caught:
        parse_grid([text])
    assert message in str(caught.value)


def test_a_key_may_be_named_once() -> None:
    with pytest.raises(RecipeError, match="once for each key"):
        parse_grid(["training.lr=1", "training.lr=2"])


def test_values_replace_those_of_a_recipe_and_leave_the_rest() -> None:
    content = {"budget": 0.5, "training": {"lr": 0.1, "epochs": 2}}
    assert with_values(content, {"training.lr": 0.2, "granularity": "filter"}) == {
        "budget": 0.5,
        "granularity": "filter",
        "training": {"lr": 0.2, "epochs": 2},
    }
    assert content["training"] == {"lr": 0.1, "epochs": 2}
    with pytest.raises(RecipeError, match="budget is not a table of the recipe"):
        with_values(content, {"budget.share": 1})
