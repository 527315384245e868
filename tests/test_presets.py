"""The paper's preset, against the settings that the paper states, and the recipes of earlier versions."""

import json
from pathlib import Path

import pytest

from prunus.config import Recipe, Sharing, Training
from prunus.errors import RecipeError
from prunus.methods.table import choose_method
from prunus.presets import of_any_version
from prunus.recipes import load_recipe, load_stored_recipe, parse_recipe, recipe_differences, with_overrides

SMALLEST: dict[str, object] = {"backbone": "wrn14_2", "domains": ["demo:fashion"]}
RECIPES = Path(__file__).parents[1] / "recipes"


def _paper(**changes: object) -> Recipe:
    return parse_recipe(SMALLEST | {"preset": "paper"} | changes)


def test_the_paper_fills_in_what_is_left_out() -> None:
    recipe, training = _paper(), _paper().training
    assert (training.epochs, training.batch_size) == (60, 32)
    assert (training.lr, training.switch_lr, training.momentum, training.dual_rate) == (1e-3, 1e-4, 0.9, 1.0)
    assert (training.weight_lr, training.weight_decay, training.label_smoothing) == (None, 0, 0)
    assert (training.schedule, training.lr_drops, training.lr_drop_factor) == ("step", (0.75,), 0.1)
    assert (training.strategy, training.warmup_epochs) == ("round_robin", 0)
    assert choose_method(recipe).name == "union"


def test_what_the_recipe_sets_itself_stays() -> None:
    recipe = _paper(method="ba2", training={"epochs": 3, "schedule": "cosine", "lr_drops": [0.2]})
    assert choose_method(recipe).name == "ba2"
    assert (recipe.training.epochs, recipe.training.schedule, recipe.training.lr_drops) == (3, "cosine", (0.2,))
    assert recipe.training.lr == 1e-3


@pytest.mark.parametrize(("loss", "method"), [("jaccard", "jaccard"), ("soft_overlap", "ba2"), (None, "union")])
def test_a_sharing_loss_still_implies_the_method(loss: str | None, method: str) -> None:
    assert choose_method(_paper(sharing={"loss": loss})).name == method


def test_a_recipe_made_of_objects_is_filled_in_as_well() -> None:
    recipe = _paper(training={"batch_size": 8})
    objects = Recipe(
        preset="paper",
        backbone=recipe.backbone,
        domains=recipe.domains,
        sharing=Sharing(),
        training=Training(batch_size=8),
    )
    assert objects == recipe


def test_wrong_types_are_refused_as_without_a_preset() -> None:
    with pytest.raises(Exception, match="training"):
        _paper(training=3)


def test_a_recipe_comes_back_from_its_own_content() -> None:
    recipe = _paper(training={"epochs": 3})
    assert parse_recipe(recipe.model_dump(mode="json")) == recipe


def test_the_default_preset_changes_nothing() -> None:
    assert parse_recipe(SMALLEST | {"preset": "auto"}) == parse_recipe(SMALLEST)


def test_options_without_a_name_are_those_of_the_presets_method() -> None:
    options = {"method": {"granularity": "filter"}}
    chosen = parse_recipe(SMALLEST | options).method
    assert chosen is not None
    assert (chosen.name, chosen.options) == ("exact", {"granularity": "filter"})
    of_paper = _paper(**options).method
    assert of_paper is not None
    assert of_paper.name == "union"
    with pytest.raises(RecipeError, match=r"lacks the key 'method\.name'"):  # which the sharing loss may imply
        parse_recipe(SMALLEST | options | {"sharing": {"loss": "jaccard"}})
    changed = parse_recipe(with_overrides(SMALLEST, ["method.weights=frozen"])).method
    assert changed is not None
    assert (changed.name, changed.options) == ("exact", {"weights": "frozen"})


def test_an_option_of_a_method_that_is_written_as_a_key_names_its_place() -> None:
    with pytest.raises(RecipeError, match=r"unknown recipe key 'weights'; did you mean 'method\.weights'\? It is an"):
        parse_recipe(SMALLEST | {"weights": "frozen"})


def test_a_preset_alone_is_no_difference() -> None:
    explicit = _paper().model_dump(mode="json") | {"preset": "auto"}
    assert recipe_differences(_paper(), parse_recipe(explicit)) == []
    assert recipe_differences(_paper(), parse_recipe(SMALLEST)) != []


def test_a_recipe_stored_before_there_were_presets_had_the_defaults_of_the_paper(tmp_path: Path) -> None:
    stored = SMALLEST | {"training": {"epochs": 3}}
    assert parse_recipe(of_any_version(stored)) == _paper(training={"epochs": 3})
    path = tmp_path / "recipe.json"
    path.write_text(json.dumps(stored))
    assert load_stored_recipe(path, ["training.epochs=4"]).training == _paper(training={"epochs": 4}).training
    assert load_recipe(path).training == Training(epochs=3)


def test_a_recipe_stored_since_is_left_as_it_is() -> None:
    stored = parse_recipe(SMALLEST).model_dump(mode="json")
    assert parse_recipe(of_any_version(stored)) == parse_recipe(SMALLEST)


@pytest.mark.parametrize("name", ["decathlon", "imagenet_to_sketch"])
def test_the_recipes_of_the_papers_tables_are_the_papers(name: str) -> None:
    training = load_recipe(RECIPES / f"{name}.toml").training
    expected = {
        "decathlon": (60, 32, 1e-3, 1e-4, (0.75,)),
        "imagenet_to_sketch": (45, 12, 5e-4, 5e-5, (0.3334, 0.6667)),
    }
    assert (training.epochs, training.batch_size, training.lr, training.switch_lr, training.lr_drops) == expected[name]
    assert (training.schedule, training.strategy, training.label_smoothing) == ("step", "round_robin", 0)
