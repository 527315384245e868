"""Recipes as they are shown: dotted keys, JSON values, and no folder of this machine."""

import pytest

from prunus.report.recipe import last_part, shown_recipe


def test_values_are_json_and_paths_are_shortened() -> None:
    content = {
        "domains": [{"name": "birds", "path": "/home/somebody/birds"}],
        "backbone": {"name": "wrn14_2", "weights": "C:\\models\\weights.pth"},
        "budget": 0.5,
        "root": None,
    }
    assert shown_recipe(content) == {
        "domains.0.name": '"birds"',
        "domains.0.path": '"birds"',
        "backbone.name": '"wrn14_2"',
        "backbone.weights": '"weights.pth"',
        "budget": "0.5",
    }


@pytest.mark.parametrize("content", [None, [], "recipe", 3])
def test_what_is_not_a_recipe_shows_nothing(content: object) -> None:
    assert shown_recipe(content) == {}


def test_the_root_folder_keeps_its_name() -> None:
    assert last_part("/") == "/"
