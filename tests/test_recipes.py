"""The recipes that come with the project say what the paper says."""

from pathlib import Path

import pytest

from prunus.config import Recipe
from prunus.errors import RecipeError, UnknownNameError
from prunus.learning.rates import rate_factor
from prunus.recipes import load_recipe, parse_recipe, recipe_differences
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


def test_the_source_is_the_first_domain_and_marked() -> None:
    recipe = parse_recipe({"backbone": "wrn14_2", "source": "data/imagenet", "domains": ["data/birds"]})
    assert [(domain.name, domain.path, domain.source) for domain in recipe.domains] == [
        ("imagenet", "data/imagenet", True),
        ("birds", "data/birds", False),
    ]
    assert recipe.source == "imagenet"
    table = {"path": "demo:signs", "name": "pretrained-on", "mirror": False}
    named = parse_recipe({"backbone": "wrn14_2", "source": table, "domains": ["data/birds"]})
    assert (named.source, named.domains[0].path, named.domains[0].mirrored) == ("pretrained-on", "demo:signs", False)
    assert parse_recipe({"backbone": "wrn14_2", "domains": ["data/birds"]}).source is None


def test_a_stored_recipe_keeps_its_source() -> None:
    recipe = parse_recipe({"backbone": "wrn14_2", "source": "imagenet", "domains": ["birds"]})
    stored = recipe.model_dump(mode="json")
    assert "source" not in stored
    assert parse_recipe(stored) == recipe
    assert "source" not in stored["domains"][1]  # files of earlier versions have no such key
    without = parse_recipe({"backbone": "wrn14_2", "domains": ["imagenet", "birds"]})
    assert recipe_differences(recipe, without) == ["domains.0.source: True -> None"]


def test_a_source_that_is_a_domain_too_is_refused(tmp_path: Path) -> None:
    content: dict[str, object] = {"backbone": "wrn14_2", "source": "data/birds"}
    with pytest.raises(RecipeError, match="'birds' is the source and one of the domains; name it once"):
        parse_recipe(content | {"domains": ["other/birds", "signs"]})
    twice = content | {"domains": [{"path": "./data/../data/birds", "name": "again"}]}
    with pytest.raises(RecipeError, match=r"data/birds is the source and also the domain 'again'; remove it"):
        parse_recipe(twice, tmp_path)
    marked = content | {"domains": [{"path": "signs", "source": True}]}
    with pytest.raises(RecipeError, match="a backbone has one source, but 'birds' and 'signs' are marked as it"):
        parse_recipe(marked)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"source": 3}, "recipe key 'source': a domain is a path or a table"),
        ({"source": {"path": "a", "fit": "round"}}, "recipe key 'source.fit'"),
        ({"source": {"name": "a"}}, "the recipe lacks the key 'source.path'"),
        ({"source": {"path": "a", "miror": True}}, "unknown recipe key 'source.miror'"),
        ({"source": "a", "domains": ["b", {"path": "c", "fit": "round"}]}, "recipe key 'domains.1.fit'"),
        ({"sourc": "a"}, "did you mean 'source'"),
    ],
)
def test_a_mistake_in_the_source_is_found_where_it_was_written(changes: dict[str, object], message: str) -> None:
    with pytest.raises((RecipeError, UnknownNameError), match=message):
        parse_recipe({"backbone": "wrn14_2", "domains": ["b"]} | changes)


def test_a_source_alone_is_no_recipe() -> None:
    with pytest.raises(RecipeError, match="the recipe lacks the key 'domains'"):
        parse_recipe({"backbone": "wrn14_2", "source": "imagenet"})


def test_the_source_can_be_set_for_one_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "recipes" / "r.toml"
    path.parent.mkdir()
    path.write_text('backbone = "wrn14_2"\nsource = "near"\ndomains = ["birds"]\n')
    monkeypatch.chdir(tmp_path)
    assert load_recipe(path).domains[0].path == str(path.parent / "near")
    assert load_recipe(path, ["source=far"]).domains[0].path == str(tmp_path / "far")
    assert load_recipe(path, ["source=demo:signs"]).domains[0].path == "demo:signs"
    renamed = load_recipe(path, ["source.name=first"])
    assert (renamed.source, renamed.domains[0].path) == ("first", str(path.parent / "near"))


def test_a_benchmark_takes_a_source_beside_its_sets_or_among_them() -> None:
    content: dict[str, object] = {"benchmark": "decathlon", "root": "/d", "backbone": "wrn14_2"}
    beside = parse_recipe(content | {"source": "/imagenet", "domains": ["dtd"]})
    assert [(domain.name, domain.layout, domain.source) for domain in beside.domains] == [
        ("imagenet", "folders", True),
        ("dtd", "decathlon", False),
    ]
    assert parse_recipe(beside.model_dump(mode="json")) == beside
    among = parse_recipe(content | {"domains": ["dtd", {"name": "imagenet12", "source": True}]}, Path("/"))
    assert (among.source, among.domains[1].layout, among.domains[1].path) == ("imagenet12", "decathlon", "/d")
    assert parse_recipe(among.model_dump(mode="json"), Path("/")) == among
