"""The recipe that a model file records is read, or refused by the name of the file."""

from pathlib import Path

import pytest

import prunus
from prunus.bundle.bundle import Bundle
from prunus.bundle.file import write_bundle
from prunus.errors import BundleError
from prunus.evaluation.subject import recipe_of_domains, recipe_of_file
from tests.makers.graph_bundles import random_bundle, varied_graph

RECIPE = {"backbone": "wrn14_2", "domains": [{"name": "a", "path": "a"}], "method": "exact", "budget": 0.25}
FILE = Path("m.prunus")


def recording(recipe: object) -> Bundle:
    bundle = random_bundle(varied_graph(0), 12)
    origin = {"recipe": recipe, "step": 1, "total_steps": 1}
    return Bundle(bundle.manifest.model_copy(update={"provenance": origin}), bundle.arrays)


def test_a_recorded_recipe_is_read() -> None:
    recipe = recipe_of_file(recording(RECIPE), FILE)
    assert recipe is not None
    assert recipe.budget.kernels == 0.25


@pytest.mark.parametrize("odd", [None, "x", [1], 3, {}])
def test_anything_but_a_recipe_is_none(odd: object, tmp_path: Path) -> None:
    bundle = recording(odd)
    assert recipe_of_file(bundle, FILE) is None
    with pytest.raises(BundleError, match=r"m\.prunus does not record its recipe and cannot be measured"):
        recipe_of_domains(bundle, FILE, "cannot be measured")
    write_bundle(tmp_path / "m.prunus", bundle)
    prunus.prune(tmp_path / "m.prunus", tmp_path / "half.prunus", "float16")
    assert prunus.inspect(tmp_path / "half.prunus").dtype == "float16"


@pytest.mark.parametrize(
    ("odd", "problem"),
    [
        ({"budget": "x"}, r"recipe key 'budget\.kernels'"),
        ({"budget": {"kernels": True}}, r"recipe key 'budget\.kernels'"),
        ({"method": {"name": 7}}, r"recipe key 'method\.name'"),
        ({"method": "nothing"}, "nothing"),
        ({"backbone": 3}, "recipe key 'backbone'"),
        ({"domains": [3]}, "recipe key 'domains"),
    ],
)
def test_a_recipe_that_cannot_be_read_is_refused_by_the_name_of_the_file(odd: dict[str, object], problem: str) -> None:
    with pytest.raises(BundleError, match=rf"m\.prunus records a recipe that cannot be read: .*{problem}"):
        recipe_of_file(recording(RECIPE | odd), FILE)


def test_domains_that_the_file_lacks_are_refused(tmp_path: Path) -> None:
    bundle = recording(RECIPE | {"domains": [{"name": "a", "path": "a"}, {"path": "x"}]})
    write_bundle(tmp_path / "m.prunus", bundle)
    with pytest.raises(BundleError, match=r"m\.prunus records a domain 'x' that it does not have, and cannot be meas"):
        prunus.evaluate(tmp_path / "m.prunus", data=tmp_path)
    with pytest.raises(BundleError, match="records a domain 'x' that it does not have, and cannot be written as int8"):
        prunus.prune(tmp_path / "m.prunus", tmp_path / "eight.prunus", "int8", tmp_path)
