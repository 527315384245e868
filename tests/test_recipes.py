"""The recipes that come with the project say what the paper says."""

from pathlib import Path

import pytest

from prunus.config import Recipe
from prunus.errors import RecipeError, UnknownNameError
from prunus.learning.rates import rate_factor
from prunus.recipes import load_recipe, parse_recipe
from prunus.samples import bundled
from prunus.training.planning import check_recipe

RECIPES = Path(__file__).parents[1] / "recipes"


@pytest.mark.parametrize(
    "path", [*sorted(RECIPES.glob("*.toml")), bundled("recipes") / "demo.toml"], ids=lambda p: p.name
)
def test_every_recipe_is_valid(path: Path) -> None:
    check_recipe(load_recipe(path))


def _drops(recipe: Recipe) -> list[int]:
    return [round(share * recipe.training.num_epochs) for share in recipe.training.lr_drops]


def test_the_decathlon_recipe_is_the_papers() -> None:
    recipe = load_recipe(RECIPES / "decathlon.toml")
    training = recipe.training
    assert (training.epochs, training.batch_size, training.lr, training.switch_lr) == (60, 32, 1e-3, 1e-4)
    assert _drops(recipe) == [45]
    assert (recipe.backbone.name, recipe.backbone.size, recipe.backbone.resize) == ("wrn28_4", 64, 72)
    assert len(recipe.domains) == 9
    assert {d.name for d in recipe.domains if not d.mirrored} == {"dtd", "gtsrb", "omniglot", "svhn"}
    assert all(d.statistics == "own" and d.layout == "decathlon" for d in recipe.domains)
    assert recipe.domains[0].path == str(RECIPES / "decathlon-1.0")
    assert recipe.domains[0].finetune_accuracy == 0.603


def test_the_sketch_recipe_is_the_papers() -> None:
    recipe = load_recipe(RECIPES / "imagenet_to_sketch.toml")
    training = recipe.training
    assert (training.epochs, training.batch_size, training.lr, training.switch_lr) == (45, 12, 5e-4, 5e-5)
    assert _drops(recipe) == [15, 30]
    assert (recipe.backbone.size, recipe.backbone.resize) == (224, 256)
    cropped = {d.name for d in recipe.domains if d.fit == "squash" and d.resize == 224}
    assert cropped == {"cubs_cropped", "stanford_cars_cropped"}
    assert all(d.mirrored and d.statistics == "backbone" for d in recipe.domains)


def test_a_benchmark_without_domains_takes_all_its_sets_and_settings_of_the_recipe_stand() -> None:
    recipe = parse_recipe(
        {"benchmark": "decathlon", "root": "/d", "backbone": {"name": "wrn14_2", "size": 32, "resize": 36}}
    )
    assert len(recipe.domains) == 10
    assert (recipe.backbone.size, recipe.backbone.resize) == (32, 36)
    changed = parse_recipe(
        {"benchmark": "decathlon", "root": "/d", "backbone": "wrn14_2", "domains": [{"name": "dtd", "mirror": True}]}
    )
    assert changed.domains[0].mirrored
    assert parse_recipe(changed.model_dump(mode="json")) == changed


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ({"benchmark": "decatlon", "root": "/d"}, "did you mean 'decathlon'"),
        ({"benchmark": "decathlon"}, "needs the key root"),
        ({"benchmark": "decathlon", "root": "/d", "domains": ["aircrafts"]}, "did you mean 'aircraft'"),
        ({"benchmark": "decathlon", "root": "/d", "domains": "aircraft"}, "must be a list"),
    ],
)
def test_wrong_benchmarks_are_refused(content: dict[str, object], message: str) -> None:
    with pytest.raises((RecipeError, UnknownNameError), match=message):
        parse_recipe({"backbone": "wrn28_4"} | content)


def test_learning_rates_of_the_sketch_recipe_fall_at_the_papers_epochs() -> None:
    recipe = load_recipe(RECIPES / "imagenet_to_sketch.toml")
    found = [rate_factor(recipe.training, epoch) for epoch in (14, 15, 29, 30)]
    assert found == pytest.approx([1.0, 0.1, 0.1, 0.01])


def test_a_path_that_is_not_utf8_is_refused_in_one_line() -> None:
    with pytest.raises(RecipeError, match=r"not valid UTF-8, at .*data/\\udcff.*; rename it") as caught:
        parse_recipe({"backbone": "wrn14_2", "budget": 0.5, "domains": ["data/\udcff"]})
    assert str(caught.value).isprintable()


def test_a_recipe_in_a_folder_that_is_not_utf8_is_refused_in_one_line(tmp_path: Path) -> None:
    with pytest.raises(RecipeError, match=r"the path .*\\udcff/data/birds is not valid UTF-8; rename it"):
        parse_recipe({"backbone": "wrn14_2", "budget": 0.5, "domains": ["data/birds"]}, tmp_path / "\udcff")
