"""What a model file says about the network that it was made from, also if it says something odd."""

from dataclasses import replace

import pytest

from prunus.bundle.bundle import Bundle
from prunus.bundle.manifest import Provenance
from prunus.editing.original import check_original, common_preprocess, original_choice
from prunus.errors import BackboneError
from prunus.images import Preprocess
from tests.makers.graph_bundles import random_bundle, varied_graph

RECIPE: Provenance = {
    "backbone": {"name": "wrn14_2"},
    "domains": [{"name": "a", "path": "a"}, {"name": "b", "path": "b"}],
}
ODD: list[object] = [None, 3, [], {}, {"domains": None}, {"domains": ["a"]}, {"domains": [{"path": "a"}]}]


def _bundle(provenance: Provenance) -> Bundle:
    bundle = random_bundle(varied_graph(0), 12)
    (first, *_) = bundle.manifest.domains.values()
    own = first.model_copy(update={"preprocess": Preprocess(size=12, resize=16, mean=(1, 1, 1), std=(2, 2, 2))})
    manifest = bundle.manifest.model_copy(update={"domains": {"a": own, "b": first}, "provenance": provenance})
    return replace(bundle, manifest=manifest)


def test_the_recorded_backbone_is_returned_with_the_weights_that_are_passed() -> None:
    bundle = _bundle({"recipe": RECIPE})
    assert original_choice(bundle).name == "wrn14_2"
    assert original_choice(bundle, "mine.safetensors").weights == "mine.safetensors"


def test_weights_from_elsewhere_must_be_passed() -> None:
    bundle = _bundle({"recipe": RECIPE | {"backbone": {"name": "wrn14_2", "weights": "mine.safetensors"}}})
    with pytest.raises(BackboneError, match="pass the path of that file"):
        original_choice(bundle)
    assert original_choice(bundle, "copy.safetensors").weights == "copy.safetensors"


def test_random_weights_are_named_by_the_word_that_makes_them_again() -> None:
    bundle = _bundle({"recipe": RECIPE | {"backbone": {"name": "wrn14_2", "weights": "random"}}})
    with pytest.raises(BackboneError, match='pass "random" as weights'):
        original_choice(bundle)
    assert original_choice(bundle, "random").weights == "random"


@pytest.mark.parametrize(
    "recipe", [*ODD, RECIPE | {"backbone": {"name": "wrn14_2", "new": 1}}, RECIPE | {"backbone": 3}]
)
def test_odd_records_of_a_backbone_are_one_error(recipe: object) -> None:
    with pytest.raises(BackboneError, match="does not record which backbone"):
        original_choice(_bundle({"recipe": recipe}))


def test_other_weights_than_the_recorded_ones_are_refused() -> None:
    bundle = _bundle({"recipe": RECIPE, "backbone_sha256": "0"})
    check_original(bundle, original_choice(bundle), "0")
    with pytest.raises(BackboneError, match="other weights"):
        check_original(bundle, original_choice(bundle), "1")


def test_the_preprocessing_of_a_domain_without_its_own_is_common() -> None:
    own = {"name": "a", "path": "a", "statistics": "own"}
    bundle = _bundle({"recipe": RECIPE | {"domains": [own, RECIPE["domains"][1]]}})
    assert common_preprocess(bundle) == bundle.manifest.domains["b"].preprocess


@pytest.mark.parametrize("recipe", ODD)
def test_without_a_readable_recipe_it_is_that_of_the_first_domain(recipe: object) -> None:
    bundle = _bundle({"recipe": recipe})
    assert common_preprocess(bundle) == bundle.manifest.domains["a"].preprocess
