"""A miniature of each benchmark, in its exact layout, goes the whole way."""

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

import prunus
from prunus.cli.app import app
from prunus.errors import DataError
from prunus.training.run import open_run
from tests.makers.decathlon import SETS, write_picture

pytestmark = pytest.mark.slow  # trains


def _recipe(root: Path, **changes: object) -> prunus.Recipe:
    content = {
        "benchmark": "decathlon",
        "root": str(root),
        "domains": list(SETS),
        "preset": "paper",
        "backbone": {"name": "wrn14_2", "size": 32, "resize": 36},
        "budget": 0.5,
        "training": {"epochs": 6, "lr": 0.05, "batch_size": 8, "strategy": "alternate"},
        "evaluation": {"crops": "paper"},
    }
    return prunus.parse_recipe(content | changes)


def test_a_miniature_decathlon_trains_evaluates_submits_and_scores(decathlon: Path, tmp_path: Path) -> None:
    run = prunus.train(_recipe(decathlon), tmp_path / "run")
    validation = prunus.evaluate(run, split="validation")
    assert {name: entry.crops for name, entry in validation.domains.items()} == {"aircraft": 10, "dtd": 5}
    with pytest.raises(DataError, match=r"have no labels; write a submission with prunus submit"):
        prunus.evaluate(run)
    model = prunus.prune(run, tmp_path / "model.prunus")
    statistics = prunus.Predictor(model).bundle.manifest.domains["dtd"].preprocess
    assert statistics.mean != prunus.Predictor(model).bundle.manifest.domains["aircraft"].preprocess.mean
    arguments = ["submit", str(model), "--data", str(decathlon), "--out", str(tmp_path / "results.zip")]
    output = CliRunner().invoke(app, arguments).output
    assert "aircraft 12, dtd 8" in output
    assert "missing: imagenet12, cifar100" in output
    found = CliRunner().invoke(
        app, ["score", str(tmp_path / "results.zip"), "--labels", str(tmp_path / "labels"), "--json"]
    )
    graded = json.loads(found.output)
    for name in SETS:  # the labels beside the annotations give the same accuracy by the other route
        labels = tmp_path / "labels" / f"{name}_test.json"
        (decathlon / "annotations" / labels.name).write_bytes(labels.read_bytes())
    measured = prunus.evaluate(run)
    assert measured.scores is not None
    assert graded["accuracies"] == measured.accuracies
    assert graded["accuracies"]["dtd"] == 1.0  # two plain colours are easy: a wrong join would not get there
    assert graded["sets_in_benchmark"] == 10
    assert graded["scores"]["s"] == pytest.approx(measured.scores.s)


def test_a_miniature_imagenet_to_sketch_trains_and_evaluates(tmp_path: Path) -> None:
    root = tmp_path / "sketch"
    for name, split in (("cubs_cropped", "test"), ("flowers", "test"), ("imagenet", "val")):
        for part, count in (("train", 8), (split, 3)):
            for label in range(2):
                for index in range(count):
                    file = root / name / part / f"class{label}" / f"{index}.jpg"
                    write_picture(file, label, hash((name, part, label, index)) % 1000, size=(60, 40))
    recipe = prunus.parse_recipe(
        {
            "benchmark": "imagenet_to_sketch",
            "root": str(root),
            "domains": ["cubs_cropped", "flowers", "imagenet"],
            "preset": "paper",
            "backbone": {"name": "timm/resnet10t", "weights": "random", "size": 32, "resize": 36},
            "training": {"epochs": 1, "batch_size": 4},
            "evaluation": {"crops": "paper"},
        }
    )
    results = prunus.evaluate(prunus.train(recipe, tmp_path / "run"))
    assert {name: (e.images, e.crops) for name, e in results.domains.items()} == {
        "cubs_cropped": (6, 1),
        "flowers": (6, 10),
        "imagenet": (6, 10),
    }
    preprocess = open_run(tmp_path / "run").preprocess
    assert (preprocess["cubs_cropped"].fit, preprocess["cubs_cropped"].resize) == ("squash", 32)
    assert (preprocess["flowers"].fit, preprocess["flowers"].resize) == ("crop", 36)
    report = CliRunner().invoke(app, ["check", str(root), "--benchmark", "imagenet_to_sketch"])
    assert "2 classes, ImageNet-to-Sketch has 200" in report.output
    with pytest.raises(DataError, match=r"looked for the set 'wikiart' .* holds cubs_cropped, flowers, imagenet"):
        prunus.train(
            prunus.parse_recipe(
                {
                    "benchmark": "imagenet_to_sketch",
                    "root": str(root),
                    "domains": ["wikiart"],
                    "preset": "paper",
                    "backbone": "wrn14_2",
                }
            ),
            tmp_path / "other",
        )
