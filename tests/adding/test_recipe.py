"""The recipes of a domain that is added, and of the network that teaches it."""

from pathlib import Path

import pytest

from prunus.adding.recipe import Addition, addition_recipe, check_name, teacher_of
from prunus.bundle.bundle import Bundle
from prunus.config import BackboneChoice
from prunus.errors import BundleError, RecipeError, UnknownNameError
from tests.makers.graph_bundles import random_bundle, varied_graph

BUNDLE = random_bundle(varied_graph(0), 12)
MODEL = Path("/models/base.prunus")


def test_a_domain_learns_inside_the_file() -> None:
    recipe = addition_recipe(MODEL, BUNDLE, Addition("data/My Cars"), ["training.epochs=7"])
    assert recipe.backbone.name == str(MODEL)
    assert recipe.backbone.original is None
    assert recipe.domains[0].name == "My-Cars"
    assert recipe.method is not None
    assert recipe.method.options["weights"] == "frozen"
    assert recipe.training.epochs == 7
    assert recipe.teacher is None


def test_a_domain_that_may_add_kernels_trains_them() -> None:
    recipe = addition_recipe(MODEL, BUNDLE, Addition("cars", "trucks", "5%", "w.pth"))
    assert recipe.backbone.original == str(Path.cwd() / "w.pth")
    assert recipe.domains[0].name == "trucks"
    assert recipe.method is not None
    assert recipe.method.options["weights"] == "trained"
    assert recipe.budget.only_kernels == 0.05
    assert recipe.teacher is None


def _file_of(granularity: str) -> Bundle:
    """Return a file that says with which switches it was trained."""
    recipe = {"domains": [], "budget": 0.5, "method": {"name": "exact", "granularity": granularity}}
    return Bundle(BUNDLE.manifest.model_copy(update={"provenance": {"recipe": recipe}}), BUNDLE.arrays)


@pytest.mark.parametrize(("granularity", "expected"), [("1x4", "1x4"), ("kernel", None), ("filter", None)])
def test_inside_a_file_of_blocks_a_domain_uses_whole_blocks(granularity: str, expected: str | None) -> None:
    recipe = addition_recipe(MODEL, _file_of(granularity), Addition("cars"))
    assert recipe.method is not None
    assert recipe.method.options.get("granularity") == expected


def test_a_file_of_blocks_grows_by_single_kernels() -> None:
    recipe = addition_recipe(MODEL, _file_of("1x4"), Addition("cars", grow="5%", weights="w.pth"))
    assert recipe.method is not None
    assert recipe.method.options == {"weights": "trained"}


def test_a_teacher_is_the_original_network_fine_tuned_on_the_same_images() -> None:
    settings = ["training.batch_size=16", "training.splits=train+validation", "seed=4", "skip_bad_images=true"]
    recipe = addition_recipe(MODEL, BUNDLE, Addition("cars"), settings)
    teacher = teacher_of(recipe, BackboneChoice(name="wrn14_2"))
    assert teacher.backbone.name == "wrn14_2"
    assert teacher.method is not None
    assert teacher.method.name == "finetune"
    assert (teacher.training.batch_size, teacher.training.splits) == (16, "train+validation")
    assert (teacher.seed, teacher.skip_bad_images, teacher.training.epochs) == (4, True, 25)
    assert teacher.domains == recipe.domains


@pytest.mark.parametrize(
    "setting", ['domains=["a", "b"]', "backbone=wrn14_2", "method=taps", "budget=0.1", "dtype=float16"]
)
def test_settings_change_the_training_only(setting: str) -> None:
    with pytest.raises(
        RecipeError, match=f"cannot change '{setting.partition('=')[0]}'; its settings begin with training"
    ):
        addition_recipe(MODEL, BUNDLE, Addition("cars"), [setting])


def test_a_full_model_takes_no_more_domains(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("prunus.adding.recipe.MAX_DOMAINS", 2)
    with pytest.raises(BundleError, match="the model has 2 domains, and no model file may have more"):
        check_name(BUNDLE, "cars", is_replaced=False)
    check_name(BUNDLE, "a", is_replaced=True)


def test_names_are_checked_before_anything_is_trained() -> None:
    check_name(BUNDLE, "cars", is_replaced=False)
    check_name(BUNDLE, "a", is_replaced=True)
    with pytest.raises(BundleError, match="already has a domain 'a'"):
        check_name(BUNDLE, "a", is_replaced=False)
    with pytest.raises(BundleError, match="already has a domain 'a', and files are named after domains"):
        check_name(BUNDLE, "A", is_replaced=False)
    with pytest.raises(UnknownNameError, match="unknown domain 'cars'"):
        check_name(BUNDLE, "cars", is_replaced=True)
