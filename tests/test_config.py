from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

import pytest
from pydantic import ValidationError

from prunus.config import Budget, DomainChoice, Recipe
from prunus.errors import RecipeError, UnknownNameError
from prunus.recipes import load_recipe, parse_recipe, recipe_differences

SMALLEST: dict[str, object] = {"backbone": "wrn14_2", "domains": ["demo:fashion"]}
TOML = 'backbone = "wrn14_2"\ndomains = ["flowers", {path = "../signs.zip", mirror = false}]\n'


def parse(**changes: object) -> Recipe:
    return parse_recipe(SMALLEST | changes)


@pytest.fixture
def recipe_file(tmp_path: Path) -> Path:
    path = tmp_path / "recipes" / "a.toml"
    path.parent.mkdir()
    path.write_text(TOML)
    return path


def test_what_is_left_out_has_the_values_that_were_measured_to_work() -> None:
    recipe, training = parse(), parse().training
    assert (training.epochs, training.switch_lr, training.batch_size) == (None, None, 32)
    assert (training.lr, training.weight_lr, training.weight_decay) == (0.02, 0.04, 5e-4)
    assert (training.momentum, training.schedule, training.label_smoothing) == (0.9, "cosine", 0.1)
    assert (recipe.preset, recipe.method, recipe.sharing.loss, recipe.sharing.weight) == ("auto", None, None, None)
    assert (training.strategy, recipe.backbone.weights) == ("shuffled", "pretrained")


def test_what_is_given_replaces_the_default() -> None:
    recipe = parse(
        budget=0.5,
        seed=3,
        backbone={"name": "wrn28_4", "weights": "random", "size": 32, "resize": 40},
        sharing={"loss": "jaccard", "weight": 2},
        training={"epochs": 7, "lr_drops": [0.5, 0.9], "strategy": "mixed"},
        evaluation={"crops": "paper"},
    )
    assert (recipe.budget.kernels, recipe.seed) == (0.5, 3)
    assert (recipe.backbone.name, recipe.backbone.size, recipe.backbone.resize) == ("wrn28_4", 32, 40)
    assert (recipe.sharing.loss, recipe.sharing.weight) == ("jaccard", 2.0)
    assert (recipe.training.epochs, recipe.training.lr_drops, recipe.training.strategy) == (7, (0.5, 0.9), "mixed")
    assert recipe.evaluation.crops == "paper"


@pytest.mark.parametrize(
    ("content", "wrong", "nearest"),
    [
        ({"budgt": 0.5}, "budgt", "budget"),
        ({"training": {"epoch": 5}}, "training.epoch", "training.epochs"),
        ({"sharing": {"losss": "union"}}, "sharing.losss", "sharing.loss"),
        ({"evaluation": {"crop": 5}}, "evaluation.crop", "evaluation.crops"),
        ({"backbone": {"name": "wrn14_2", "wieghts": "random"}}, "backbone.wieghts", "backbone.weights"),
        ({"domains": [{"path": "a", "mirorr": True}]}, "domains.0.mirorr", "domains.0.mirror"),
        ({"skip-bad-images": True}, "skip-bad-images", "skip_bad_images"),
        ({"training": {"batch-size": 5}}, "training.batch-size", "training.batch_size"),
    ],
)
def test_an_unknown_key_is_named_with_the_nearest_known_one(
    content: Mapping[str, object], wrong: str, nearest: str
) -> None:
    with pytest.raises(UnknownNameError) as caught:
        parse_recipe(SMALLEST | dict(content))
    said = f"unknown recipe key {wrong!r}; did you mean {nearest!r}? docs/recipes.md lists all keys"
    assert str(caught.value) == said


def test_an_unknown_key_like_no_other_lists_the_known_ones() -> None:
    with pytest.raises(UnknownNameError) as caught:
        parse_recipe(SMALLEST | {"zzz": 1})
    assert str(caught.value).startswith("unknown recipe key 'zzz'; known: ")
    assert "budget" in str(caught.value)


@pytest.mark.parametrize("budget", [0, 1.5, -1, "a", float("nan"), True, [0.5]])
def test_a_budget_that_is_no_share_is_refused_with_what_was_given(budget: object) -> None:
    with pytest.raises(
        RecipeError, match=r"^recipe key 'budget(\.kernels)?': (Input should|expected) .*, got "
    ) as caught:
        parse(budget=budget)
    assert str(caught.value).endswith(repr(budget))


@pytest.mark.parametrize("budget", [1, 1e-9])
def test_the_whole_backbone_and_the_smallest_share_are_budgets(budget: float) -> None:
    assert parse(budget=budget).budget.kernels == budget


@pytest.mark.parametrize("key", ["lr", "switch_lr", "dual_rate"])
def test_a_rate_without_end_is_refused(key: str) -> None:
    with pytest.raises(RecipeError, match=f"training.{key}"):
        parse(training={key: float("inf")})


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"training": {"epochs": 0}}, "'training.epochs': .*greater than or equal to 1, got 0"),
        ({"training": {"epochs": "5"}}, "'training.epochs': .*valid integer, got '5'"),
        ({"training": {"batch_size": 1}}, "'training.batch_size': .*greater than or equal to 2, got 1"),
        ({"training": {"strategy": "robin"}}, "'training.strategy': .*'round_robin'.*, got 'robin'"),
        ({"training": {"lr_drops": [1.5]}}, "'training.lr_drops.0': .*less than or equal to 1, got 1.5"),
        ({"evaluation": {"crops": 3}}, "'evaluation.crops': .*1, 5, 10 or 'paper', got 3"),
        ({"sharing": {"weight": -1}}, "'sharing.weight': .*greater than 0.*, got -1"),
        ({"backbone": {"name": "x", "size": 64, "resize": 60}}, r"resize must be at least size \(64\), got 60"),
        ({"seed": -1}, "'seed'"),
        ({"domains": []}, "'domains': .*at least 1"),
        ({"domains": "demo:fashion"}, "'domains': .*array"),
        ({"domains": [3]}, "'domains.0': a domain is a path or a table"),
        ({"domains": [{"name": "a"}]}, "the recipe lacks the key 'domains.0.path'"),
        ({"domains": [{"name": "a b", "path": "x"}]}, "'domains.0.name': .*, got 'a b'"),
        ({"domains": [{"name": "a b", "path": "x"}]}, "'domains.0.name': a domain name has letters .* example 'a-b'"),
        ({"domains": [{"name": "x" * 201, "path": "x"}]}, "'domains.0.name': .* at most 200 characters, got 201"),
        ({"domains": [f"data/{'x' * 201}"]}, "'domains.0.name': .* at most 200 characters, got 201"),
        ({"seed": {1, 2}}, "a recipe may hold text, numbers, lists and tables only"),
    ],
)
def test_a_value_that_is_not_allowed_is_refused_with_its_key(changes: Mapping[str, object], message: str) -> None:
    with pytest.raises(RecipeError, match=message) as caught:
        parse_recipe(SMALLEST | dict(changes))
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("key", ["backbone", "domains"])
def test_a_recipe_without_a_backbone_or_domains_is_refused(key: str) -> None:
    with pytest.raises(RecipeError, match=f"the recipe lacks the key '{key}'"):
        parse_recipe({name: value for name, value in SMALLEST.items() if name != key})


def test_two_domains_of_one_name_are_refused() -> None:
    with pytest.raises(RecipeError, match="two domains are called 'flowers'"):
        parse(domains=["here/flowers", "there/flowers.zip"])


@pytest.mark.parametrize(
    ("path", "name"),
    [
        ("data/flowers", "flowers"),
        ("x/signs.zip", "signs"),
        ("demo:fashion", "fashion"),
        ("a/", "a"),
        ("x/My Art", "My-Art"),
    ],
)
def test_a_domain_given_as_text_is_named_after_its_path(path: str, name: str) -> None:
    assert parse(domains=[path]).domains == (DomainChoice(name=name, path=path),)


def test_a_stored_domain_says_how_it_is_split_only_if_that_was_set() -> None:
    plain = DomainChoice(name="a", path="x")
    assert not {"test_share", "split_seed"} & plain.model_dump(mode="json").keys()
    chosen = DomainChoice(name="a", path="x", test_share=0.5, split_seed=3)
    assert DomainChoice.model_validate_json(chosen.model_dump_json()) == chosen
    assert DomainChoice.model_validate_json(plain.model_dump_json()) == plain


def test_a_name_that_is_given_wins_over_that_of_the_path() -> None:
    assert parse(domains=[{"path": "data/flowers", "name": "roses"}]).domains[0].name == "roses"


@pytest.mark.parametrize("name", ["dtd", "gtsrb", "omniglot", "svhn"])
def test_the_four_domains_of_the_paper_are_not_mirrored_unless_asked(name: str) -> None:
    assert not DomainChoice(name=name, path="x").mirrored
    assert DomainChoice(name=name, path="x", mirror=True).mirrored


def test_any_other_domain_is_mirrored_unless_forbidden() -> None:
    assert DomainChoice(name="flowers", path="x").mirrored
    assert not DomainChoice(name="flowers", path="x", mirror=False).mirrored


def test_relative_paths_start_at_the_folder_of_the_recipe(recipe_file: Path) -> None:
    recipe_file.write_text(TOML.replace('"wrn14_2"', '{name = "wrn14_2", weights = "own.safetensors"}'))
    recipe = load_recipe(recipe_file)
    assert [domain.path for domain in recipe.domains] == [
        str(recipe_file.parent / "flowers"),
        str(recipe_file.parent.parent / "signs.zip"),
    ]
    assert recipe.backbone.weights == str(recipe_file.parent / "own.safetensors")


@pytest.mark.parametrize("weights", ["pretrained", "random"])
def test_what_is_no_path_stays_as_it_is(recipe_file: Path, weights: str) -> None:
    content = SMALLEST | {"backbone": {"name": "wrn14_2", "weights": weights}}
    recipe = parse_recipe(content, recipe_file.parent)
    assert recipe.backbone.weights == weights
    assert recipe.domains[0].path == "demo:fashion"


def test_a_recipe_named_by_a_relative_path_gets_absolute_paths(
    recipe_file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(recipe_file.parent)
    assert load_recipe(Path("a.toml")).domains == load_recipe(recipe_file).domains


def test_overrides_reach_nested_keys_and_take_any_toml_value(recipe_file: Path) -> None:
    overrides = ["training.epochs=5", "budget=0.5", "training.lr_drops=[0.25, 0.5]", "skip_bad_images=true"]
    recipe = load_recipe(recipe_file, overrides)
    assert (recipe.training.epochs, recipe.budget.kernels) == (5, 0.5)
    assert (recipe.training.lr_drops, recipe.skip_bad_images) == ((0.25, 0.5), True)


def test_a_bare_word_is_text_and_so_is_a_quoted_one(recipe_file: Path) -> None:
    assert load_recipe(recipe_file, ["sharing.loss=jaccard"]).sharing.loss == "jaccard"
    assert load_recipe(recipe_file, ['sharing.loss="jaccard"']).sharing.loss == "jaccard"
    assert load_recipe(recipe_file, ["training.splits=train+validation"]).training.splits == "train+validation"


def test_a_later_override_wins(recipe_file: Path) -> None:
    assert load_recipe(recipe_file, ["seed=1", "seed=2"]).seed == 2


@pytest.mark.parametrize(
    ("override", "message"),
    [
        (
            "training.epochs",
            "expected key=value, .*got 'training.epochs'",
        ),
        ("training.epochs=", "recipe key 'training.epochs'"),
        ("training.epoch=5", "did you mean 'training.epochs'"),
        ("domains.0.path=x", "domains is not a table"),
        ("budget.size=32", "recipe key .budget."),
        ("a-b=1", "'a-b'"),
    ],
)
def test_a_malformed_override_is_refused(recipe_file: Path, override: str, message: str) -> None:
    with pytest.raises((RecipeError, UnknownNameError), match=message):
        load_recipe(recipe_file, [override])


def test_a_recipe_written_as_json_comes_back_equal(recipe_file: Path, tmp_path: Path) -> None:
    overrides = ["sharing.weight=0.5", "training.lr_drops=[0.5]", "evaluation.crops=paper", "budget=0.1"]
    recipe = load_recipe(recipe_file, overrides)
    written = tmp_path / "elsewhere" / "recipe.json"
    written.parent.mkdir()
    written.write_text(recipe.model_dump_json())
    assert load_recipe(written) == recipe


def test_equal_recipes_have_no_differences() -> None:
    assert recipe_differences(parse(), parse()) == []


def test_differences_name_key_and_both_values() -> None:
    ours = parse(domains=["demo:fashion"], training={"epochs": 60})
    theirs = parse(domains=["demo:fashion", "demo:signs"], budget=0.5, training={"epochs": 7})
    found = recipe_differences(ours, theirs)
    assert "budget: 0.25 -> 0.5" in found
    assert "training.epochs: 60 -> 7" in found
    assert "domains.1.name: None -> signs" in found
    assert {line.split(":")[0].split(".")[0] for line in found} == {"budget", "training", "domains"}


def test_a_recipe_cannot_be_changed() -> None:
    recipe = parse()
    with pytest.raises(ValidationError, match="frozen"):
        recipe.budget = Budget(kernels=0.5)
    with pytest.raises(ValidationError, match="frozen"):
        recipe.training.epochs = 5


def test_a_missing_recipe_is_said_to_be_missing(tmp_path: Path) -> None:
    with pytest.raises(RecipeError, match=r"no recipe file at .*gone\.toml"):
        load_recipe(tmp_path / "gone.toml")
    with pytest.raises(RecipeError, match="no recipe file at"):
        load_recipe(tmp_path)


@pytest.mark.parametrize("content", [b"backbone = ", b"\xff\xfe", b"a = 1\na = 2"])
def test_a_file_that_is_no_toml_is_refused_by_its_name(recipe_file: Path, content: bytes) -> None:
    recipe_file.write_bytes(content)
    with pytest.raises(RecipeError, match=r"a\.toml is not valid TOML"):
        load_recipe(recipe_file)


def test_a_file_that_is_no_json_is_not_called_toml(tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text("{")
    with pytest.raises(RecipeError, match=r"a\.json is not valid JSON"):
        load_recipe(tmp_path / "a.json")


@pytest.mark.parametrize("overrides", [[], ["seed=1"]])
def test_json_that_is_no_table_is_refused(tmp_path: Path, overrides: list[str]) -> None:
    (tmp_path / "a.json").write_text(json.dumps([1, 2]))
    with pytest.raises(RecipeError):
        load_recipe(tmp_path / "a.json", overrides)
