"""The recipe of a backbone: the defaults, what follows from them, and what can be changed."""

from pathlib import Path

import pytest

from prunus.errors import RecipeError, UnknownNameError
from prunus.pretraining.recipe import pretraining_recipe


def test_a_network_is_trained_from_random_weights_on_one_domain_with_its_own_statistics(tmp_path: Path) -> None:
    recipe = pretraining_recipe(tmp_path / "imagenet")
    assert (recipe.backbone.name, recipe.backbone.weights, recipe.backbone.size) == ("wrn28_4", "random", None)
    assert recipe.method is not None
    assert recipe.method.name == "finetune"
    (domain,) = recipe.domains
    assert (domain.name, domain.path, domain.statistics) == ("imagenet", str(tmp_path / "imagenet"), "own")
    training = recipe.training
    assert (training.epochs, training.batch_size, training.lr, training.warmup_epochs) == (90, 256, 0.1, 5.0)
    assert (training.schedule, training.weight_decay, training.label_smoothing) == ("cosine", 5e-4, 0.1)
    assert training.compile


def test_the_network_its_size_and_the_length_can_be_chosen(tmp_path: Path) -> None:
    recipe = pretraining_recipe(tmp_path, "timm/resnet18", 96, 20)
    assert (recipe.backbone.name, recipe.backbone.size, recipe.training.epochs) == ("timm/resnet18", 96, 20)
    assert recipe.training.warmup_epochs == pytest.approx(2.0)


@pytest.mark.parametrize(
    ("overrides", "lr"),
    [([], 0.1), (["training.batch_size=512"], 0.2), (["training.batch_size=512", "training.lr=0.05"], 0.05)],
)
def test_the_learning_rate_follows_the_batch_size_unless_it_is_set(
    tmp_path: Path, overrides: list[str], lr: float
) -> None:
    assert pretraining_recipe(tmp_path, overrides=overrides).training.lr == pytest.approx(lr)


@pytest.mark.parametrize(
    ("folder", "name"),
    [("my photos (2)", "my-photos-2-"), ("_hidden", "hidden"), ("...", "images"), ("birds.zip", "birds")],
)
def test_any_name_of_a_folder_becomes_the_name_of_a_domain(tmp_path: Path, folder: str, name: str) -> None:
    assert pretraining_recipe(tmp_path / folder).domains[0].name == name


def test_demo_domains_and_the_decathlon_are_found(decathlon: Path) -> None:
    (demo,) = pretraining_recipe("demo:fashion").domains
    assert (demo.name, demo.path, demo.statistics) == ("fashion", "demo:fashion", "own")
    recipe = pretraining_recipe(decathlon)
    (imagenet,) = recipe.domains
    assert (imagenet.name, imagenet.layout, imagenet.path) == ("imagenet12", "decathlon", str(decathlon))
    assert (recipe.backbone.size, recipe.backbone.resize, imagenet.statistics) == (64, 72, "own")
    assert pretraining_recipe(decathlon, size=48).backbone.size == 48


def test_a_wrong_override_is_refused_in_words(tmp_path: Path) -> None:
    with pytest.raises(UnknownNameError, match=r"did you mean 'training\.epochs'"):
        pretraining_recipe(tmp_path, overrides=["training.epoch=5"])
    with pytest.raises(RecipeError, match=r"training\.batch_size"):
        pretraining_recipe(tmp_path, overrides=["training.batch_size=many"])
    with pytest.raises(RecipeError, match="training"):
        pretraining_recipe(tmp_path, overrides=["training=5"])
    with pytest.raises(RecipeError, match=r"backbone\.size"):
        pretraining_recipe(tmp_path, size=4)
