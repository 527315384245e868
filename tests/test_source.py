"""The backbone's own domain as one of the masked domains: trained, pruned, measured, shown and edited."""

import json
import warnings
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from typer.testing import CliRunner

import prunus
from prunus.backbone.own import registry
from prunus.bundle.file import read_bundle
from prunus.cli.app import app
from prunus.config import Recipe
from prunus.errors import RecipeError, TrainingError
from prunus.run_folder import RunFolder
from tests.makers.own_networks import CLASSES, SIZE, leaf_net, leaf_recipe, pictures

pytestmark = pytest.mark.slow

SETTINGS = ("training.epochs=2", "training.batch_size=8")


def _write_images(folder: Path, classes: int, seed: int) -> str:
    rng = np.random.default_rng(seed)
    for split, count in (("train", 8), ("test", 4)):
        for label in range(classes):
            (folder / split / f"class{label}").mkdir(parents=True)
            for index in range(count):
                pixels = rng.integers(0, 60, (SIZE, SIZE, 3)) + 60 * label
                Image.fromarray(pixels.astype(np.uint8)).save(folder / split / f"class{label}" / f"{index}.png")
    return str(folder)


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("data")
    for seed, (name, classes) in enumerate((("photos", 3), ("birds", 2), ("cars", 2))):
        _write_images(folder / name, classes, seed)
    return folder


@pytest.fixture(scope="module", autouse=True)
def _registered() -> Iterator[None]:
    patch = pytest.MonkeyPatch()
    patch.setattr(registry, "_REGISTERED", {})
    prunus.register_backbone("leaf_net", leaf_net, size=SIZE, mean=(0.5, 0.5, 0.5), std=(0.25, 0.25, 0.25))
    yield
    patch.undo()


def _recipe(data: Path, **changes: object) -> Recipe:
    return leaf_recipe([str(data / "birds")], **{"source": str(data / "photos"), **changes})


@pytest.fixture(scope="module")
def run(data: Path) -> Path:
    return prunus.train(_recipe(data), data / "run", observers=[])


@pytest.fixture(scope="module")
def model(run: Path) -> Path:
    return _pruned(run, run.with_name("model.prunus"))


def _pruned(run: Path, out: Path) -> Path:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", prunus.BudgetWarning)  # so small a network is smaller than its masks and norms
        return prunus.prune(run, out)


def test_the_source_is_inside_the_union_and_the_budget(run: Path, model: Path) -> None:
    results, costs = prunus.evaluate(run), read_bundle(model).layer_masks()
    assert (results.source, list(results.domains)) == ("photos", ["photos", "birds"])
    assert results.domains["photos"].images == 12
    used = sum(int(mask_DOI.any(0).sum()) for mask_DOI in costs.values())
    assert results.limits[0].used == used <= results.limits[0].limit == (3 * 8 + 8 * 12) // 2
    assert results.params_ratio_with_source == results.params_ratio < 1
    assert json.loads(RunFolder(run).results.read_text())["source"] == "photos"


def test_a_file_names_its_source_and_serves_it(data: Path, model: Path) -> None:
    results = prunus.evaluate(model, data=data)
    assert (results.source, prunus.inspect(model).source) == ("photos", "photos")
    assert "| photos (source) | 3 |" in prunus.card(model)
    image = data / "photos" / "test" / "class0" / "0.png"
    (answer,) = prunus.Predictor(model).predict(image, domain="photos")
    assert {prediction.label for prediction in answer.predictions} == {"class0", "class1", "class2"}
    shown = CliRunner().invoke(app, ["inspect", str(model)]).stdout
    assert "source (the backbone was pretrained on it): photos" in shown
    table = CliRunner().invoke(app, ["evaluate", str(model), "--data", str(data)]).stdout
    assert "photos (source)" in table


def test_a_plan_counts_the_source(data: Path) -> None:
    with_source, without = prunus.plan(_recipe(data, budget=1.0)), prunus.plan(_recipe(data, budget=1.0, source=None))
    assert (with_source.source, without.source) == ("photos", None)
    assert (with_source.domains["photos"].classes, with_source.domains["photos"].images) == (3, 21)
    assert with_source.model_bytes is not None
    assert without.model_bytes is not None
    head = 4 * 3 * (12 + 1)
    assert with_source.model_bytes > without.model_bytes + head


def test_a_report_marks_the_source(run: Path, tmp_path: Path) -> None:
    prunus.evaluate(run)
    prunus.write_report(run, tmp_path / "report.html")
    text = (tmp_path / "report.html").read_text()
    assert text.count("photos (source)") + text.count("photos</a> (source)") >= 2


def test_a_run_is_not_continued_with_another_source(data: Path, run: Path) -> None:
    unmarked = leaf_recipe([str(data / "photos"), str(data / "birds")])
    with pytest.raises(TrainingError, match=r"domains\.0\.source"):
        prunus.resume(run, observers=[], recipe=unmarked)


def test_the_mark_stays_with_the_source_as_domains_come_and_go(data: Path, model: Path, tmp_path: Path) -> None:
    larger = prunus.add_domain(
        model, data / "cars", tmp_path / "larger.prunus", teacher=None, settings=SETTINGS, observers=[]
    )
    assert prunus.inspect(larger).source == "photos"
    assert prunus.evaluate(larger, data=data).source == "photos"
    smaller = prunus.remove_domain(larger, "photos", tmp_path / "smaller.prunus")
    results = prunus.evaluate(smaller, data=data)
    assert (results.source, list(results.domains)) == (None, ["birds", "cars"])
    assert prunus.inspect(smaller).source is None
    assert "(source)" not in prunus.card(smaller)


def test_a_comparison_names_the_source(data: Path, tmp_path: Path) -> None:
    comparison = prunus.compare(_recipe(data), tmp_path / "runs", ["bn"], [0.5])
    assert (comparison.source, comparison.domains) == ("photos", ("photos", "birds"))
    assert "photos (source)" in (tmp_path / "runs" / "comparison.md").read_text()


def test_a_domain_is_not_added_together_with_a_source(data: Path, model: Path, tmp_path: Path) -> None:
    settings = [*SETTINGS, f"source={data / 'birds'}"]
    with pytest.raises(RecipeError, match="a domain that is added cannot change 'source'"):
        prunus.add_domain(model, data / "cars", tmp_path / "l.prunus", teacher=None, settings=settings, observers=[])


def test_a_source_can_be_passed_from_python(data: Path) -> None:
    recipe = _recipe(data, source="python:shades")
    plan = prunus.plan(recipe, domains={"shades": prunus.OwnDomain(train=pictures(8), classes=CLASSES)})
    assert (plan.source, list(plan.domains)) == ("shades", ["shades", "birds"])
