"""A miniature of each benchmark, in its exact layout, goes the whole way."""

import json
import random
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image
from typer.testing import CliRunner

import prunus
from prunus.benchmarks import DECATHLON
from prunus.cli.app import app
from prunus.config import DomainChoice
from prunus.data.decathlon import open_decathlon_set
from prunus.data.opening import open_domain
from prunus.data.results import grade, read_labels, read_results, write_results
from prunus.errors import DataError
from prunus.training.run import open_run

COLOURS = [(220, 40, 40), (40, 200, 60), (50, 60, 220)]
SETS = ("aircraft", "dtd")


def _picture(path: Path, label: int, seed: int, size: tuple[int, int] = (72, 72)) -> None:
    noise = np.random.default_rng(seed).integers(-20, 21, (size[1], size[0], 3))
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray((np.array(COLOURS[label]) + noise).clip(0, 255).astype(np.uint8)).save(path, quality=90)


def _make_set(root: Path, name: str, counts: dict[str, int], classes: int, rng: random.Random) -> None:
    """Write one set: ids and images in random order, test images flat and unlabelled, their labels elsewhere."""
    number = DECATHLON.find(name).number
    categories = [{"id": number * 10**7 + c + 1, "name": f"kind {c + 1}"} for c in range(classes)]
    for split, count in counts.items():
        images: list[dict[str, Any]] = []
        annotations: list[dict[str, Any]] = []
        ids = rng.sample(range(1, 1000), count * classes)
        for index, image in enumerate(ids):
            label = index % classes
            folder = f"data/{name}/{split}" + ("" if split == "test" else f"/{label + 1:04d}")
            file = f"{folder}/{image:06d}.jpg"
            _picture(root / file, label, image)
            whole = number * 10**7 + {"train": 0, "val": 10**5, "test": 2 * 10**5}[split] + image
            images.append({"id": whole, "file_name": f"decathlon-1.0/{file}", "width": 72, "height": 72})
            annotations.append({"id": whole, "image_id": whole, "category_id": number * 10**7 + label + 1})
        rng.shuffle(images)
        rng.shuffle(annotations)
        rng.shuffle(categories)
        content = {"images": images, "annotations": annotations, "categories": categories}
        place = root.parent / "labels" if split == "test" else root / "annotations"
        place.mkdir(parents=True, exist_ok=True)
        (place / f"{name}_{split}.json").write_text(json.dumps(content))
        if split == "test":
            stripped = {"images": images, "categories": categories}
            (root / "annotations" / f"{name}_test_stripped.json").write_text(json.dumps(stripped))


@pytest.fixture
def decathlon(tmp_path: Path) -> Path:
    """A decathlon-1.0 folder with two sets of three and two colours."""
    root, rng = tmp_path / "decathlon-1.0", random.Random(5)
    _make_set(root, "aircraft", {"train": 8, "val": 2, "test": 4}, 3, rng)
    _make_set(root, "dtd", {"train": 8, "val": 2, "test": 4}, 2, rng)
    return root


def _recipe(root: Path, **changes: object) -> prunus.Recipe:
    content = {
        "benchmark": "decathlon",
        "root": str(root),
        "domains": list(SETS),
        "backbone": {"name": "wrn14_2", "size": 32, "resize": 36},
        "budget": 0.5,
        "training": {"epochs": 6, "lr": 0.05, "batch_size": 8, "strategy": "alternate"},
        "evaluation": {"crops": "paper"},
    }
    return prunus.parse_recipe(content | changes)


def test_every_image_gets_its_own_label_though_the_files_are_shuffled(decathlon: Path) -> None:
    for name in SETS:
        domain = open_decathlon_set(decathlon, name)
        for item in domain.train + domain.validation:
            pixels = np.asarray(Image.open(decathlon / item.file), dtype=float).mean((0, 1))
            nearest = int(np.argmin([np.abs(pixels - colour).sum() for colour in COLOURS]))
            assert item.label == nearest
        assert all(item.label == -1 for item in domain.test)
        assert domain.classes == tuple(f"kind {c + 1}" for c in range(len(domain.classes)))


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


def test_answers_are_written_the_same_every_time_and_read_back(tmp_path: Path) -> None:
    answers = {30_000_002: 30_000_001, 10_000_001: 10_000_007}
    write_results(tmp_path / "a.zip", answers)
    write_results(tmp_path / "b.zip", dict(reversed(answers.items())))
    assert (tmp_path / "a.zip").read_bytes() == (tmp_path / "b.zip").read_bytes()
    assert read_results(tmp_path / "a.zip") == answers
    plain = [{"image_id": image, "category_id": category} for image, category in answers.items()]
    (tmp_path / "c.json").write_text(json.dumps(plain))
    assert read_results(tmp_path / "c.json") == answers


def test_results_with_missing_extra_or_repeated_images_are_refused(tmp_path: Path) -> None:
    truth = {"aircraft": {1: 10_000_001, 2: 10_000_002, 3: 10_000_001}}
    assert grade({1: 10_000_001, 2: 10_000_001, 3: 10_000_001}, truth)["aircraft"].accuracy == pytest.approx(2 / 3)
    with pytest.raises(DataError, match="2 images are not answered: 2, 3"):
        grade({1: 10_000_001}, truth)
    with pytest.raises(DataError, match="1 images are not in the labels: 9"):
        grade({1: 1, 2: 1, 3: 1, 9: 1}, truth)
    repeated = [{"image_id": 1, "category_id": 2}] * 2
    (tmp_path / "r.json").write_text(json.dumps(repeated))
    with pytest.raises(DataError, match="answered images come more than once: 1 of them, such as 1"):
        read_results(tmp_path / "r.json")


HOSTILE = ["{}", "[1]", '[{"image_id": 1}]', "x", "", "[" * 100_000, '[{"image_id": 1e999, "category_id": 1}]']


@pytest.mark.parametrize(
    "content", [*HOSTILE, '[{"image_id": "a", "category_id": 1}]', '[{"image_id": 1.5, "category_id": 1}]']
)
def test_a_results_file_of_another_form_is_refused(tmp_path: Path, content: str) -> None:
    (tmp_path / "r.json").write_text(content)
    with pytest.raises(DataError, match="does not hold a list of"):
        read_results(tmp_path / "r.json")


def test_damaged_and_foreign_zips_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "r.zip"
    write_results(path, dict.fromkeys(range(1000), 1))
    content = bytearray(path.read_bytes())
    content[60:90] = b"\xff" * 30
    path.write_bytes(bytes(content))
    with pytest.raises(DataError, match="cannot read the results"):
        read_results(path)
    with zipfile.ZipFile(path, "w") as file:
        file.writestr("other.json", "[]")
    with pytest.raises(DataError, match=r"holds no results.json; it holds other.json"):
        read_results(path)
    with pytest.raises(DataError, match="cannot read the results"):
        read_results(tmp_path / "none.zip")


def _edit(file: Path, change: Callable[[dict[str, Any]], None]) -> None:
    content = json.loads(file.read_text())
    change(content)
    file.write_text(json.dumps(content))


def test_a_wrong_root_says_what_was_looked_for_and_what_is_there(decathlon: Path, tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"looked for annotations and data in it; it holds decathlon-1.0, labels"):
        open_decathlon_set(tmp_path, "dtd")
    with pytest.raises(DataError, match="there is no folder"):
        open_decathlon_set(tmp_path / "none", "dtd")
    (decathlon / "annotations" / "dtd_val.json").unlink()
    with pytest.raises(DataError, match=r"dtd_val.json is missing; it holds aircraft_test_stripped.json"):
        open_decathlon_set(decathlon, "dtd")
    with pytest.raises(DataError, match=r"holds no test labels: looked for <set>_test\.json"):
        read_labels(decathlon / "data")


def test_duplicate_ids_and_labels_out_of_range_are_named(decathlon: Path) -> None:
    file = decathlon / "annotations" / "dtd_train.json"
    original = file.read_text()

    def refused(message: str, change: Callable[[dict[str, Any]], None]) -> None:
        file.write_text(original)
        _edit(file, change)
        with pytest.raises(DataError, match=message):
            open_decathlon_set(decathlon, "dtd")

    refused("ids of 'images' come more than once: 1 of them, such as 4", lambda c: c["images"].append(c["images"][0]))
    refused(
        r"1 category ids are out of range: image 4\d+ has 40000099; allowed are 40000001 to 40000047",
        lambda c: c["annotations"][0].update(category_id=40_000_099),
    )
    for wrong in (40_000_000, 10_000_001, 10**15):
        refused("1 category ids are out of range", lambda c, wrong=wrong: c["annotations"][0].update(category_id=wrong))  # type: ignore[misc]
    refused("1 images have no annotation: 4", lambda c: c["annotations"].pop())
    refused("1 annotations have no image: 4", lambda c: c["images"].pop())
    refused("lists no image", lambda c: c.update(images=[], annotations=[]))
    for name in (
        "/etc/passwd",
        "data/dtd/../../x.jpg",
        "../data/x.jpg",
        "data/aircraft/train/x.jpg",
        "data/dtd/a\0b.jpg",
    ):
        refused("does not lie in data/dtd", lambda c, name=name: c["images"][0].update(file_name=name))  # type: ignore[misc]


@pytest.mark.parametrize(
    "content",
    [
        *HOSTILE,
        '{"images": null}',
        '{"images": [{"id": 1}]}',
        '{"images": [{"id": 1, "file_name": null}]}',
        '{"images": [{"id": "1", "file_name": "a"}]}',
        '{"images": [], "annotations": [{"image_id": 1, "category_id": null}]}',
        '{"images": [], "categories": "many"}',
    ],
)
def test_annotations_of_another_form_are_refused(decathlon: Path, content: str) -> None:
    (decathlon / "annotations" / "dtd_train.json").write_text(content)
    with pytest.raises(DataError, match="is not a COCO-style annotation file"):
        open_decathlon_set(decathlon, "dtd")


@pytest.mark.parametrize("prefix", ["", "decathlon-1.0/", "/data/me/decathlon-1.0/", "cut data"])
def test_file_names_may_begin_anywhere_above_the_set(decathlon: Path, prefix: str) -> None:
    before = open_decathlon_set(decathlon, "dtd").train

    def change(content: dict[str, Any]) -> None:
        for image in content["images"]:
            inside = image["file_name"].removeprefix("decathlon-1.0/")
            image["file_name"] = inside.removeprefix("data/") if prefix == "cut data" else prefix + inside

    _edit(decathlon / "annotations" / "dtd_train.json", change)
    assert open_decathlon_set(decathlon, "dtd").train == before


def test_ids_that_two_sets_share_are_refused(tmp_path: Path) -> None:
    content = {"images": [], "annotations": [{"image_id": 7, "category_id": 10_000_001}]}
    for name in ("aircraft", "dtd"):
        (tmp_path / f"{name}_test.json").write_text(json.dumps(content))
    with pytest.raises(DataError, match="image ids of several sets come more than once: 1 of them, such as 7"):
        read_labels(tmp_path)
    (tmp_path / "dtd_test.json").write_text('{"images": []}')
    with pytest.raises(DataError, match="holds no annotations"):
        read_labels(tmp_path)


def test_checking_a_decathlon_finds_lost_and_stray_files_and_odd_counts(decathlon: Path) -> None:
    domain = open_decathlon_set(decathlon, "dtd")
    (decathlon / domain.train[0].file).unlink()
    _picture(decathlon / "data" / "dtd" / "train" / "0001" / "stray.jpg", 0, 1)
    (decathlon / domain.train[1].file).write_bytes(b"")
    (decathlon / domain.test[0].file).write_bytes((decathlon / domain.train[2].file).read_bytes())
    Image.new("CMYK", (72, 72)).save(decathlon / domain.train[3].file)
    result = CliRunner().invoke(app, ["check", str(decathlon), "--benchmark", "decathlon", "--json"])
    report = json.loads(result.output)
    of_dtd = [(f["level"], f["message"]) for f in report["findings"] if f["domain"] == "dtd"]
    assert result.exit_code == 1
    for level, text in (
        ("error", f"1 annotated images have no file, such as {domain.train[0].image_id}"),
        ("warning", "1 files have no annotation, such as data/dtd/train/0001/stray.jpg"),
        ("error", "it is empty"),
        ("warning", "1 images of mode CMYK"),
        ("warning", "the same bytes as"),
        ("warning", "2 classes, Visual Decathlon Challenge has 47"),
        ("warning", "8 test images, Visual Decathlon Challenge has 1880"),
    ):
        assert any(found == level and text in message for found, message in of_dtd), text
    assert sum("left out" in finding["message"] for finding in report["findings"]) == 8
    assert [domain["name"] for domain in report["domains"]] == ["aircraft", "dtd"]


def test_a_sketch_set_without_test_images_is_refused(make_domain: Callable[..., Path], tmp_path: Path) -> None:
    make_domain("root/flowers", train=6, test=0)
    with pytest.raises(DataError, match="has no test split: looked for test or val"):
        open_domain(DomainChoice(name="flowers", path=str(tmp_path / "root" / "flowers"), layout="imagenet_to_sketch"))


def test_a_decathlon_checked_without_its_name_is_recognised(decathlon: Path) -> None:
    with pytest.raises(DataError, match="looks like the Visual Decathlon; check it with --benchmark decathlon"):
        prunus.check(decathlon)


def test_a_miniature_imagenet_to_sketch_trains_and_evaluates(tmp_path: Path) -> None:
    root = tmp_path / "sketch"
    for name, split in (("cubs_cropped", "test"), ("flowers", "test"), ("imagenet", "val")):
        for part, count in (("train", 8), (split, 3)):
            for label in range(2):
                for index in range(count):
                    file = root / name / part / f"class{label}" / f"{index}.jpg"
                    _picture(file, label, hash((name, part, label, index)) % 1000, size=(60, 40))
    recipe = prunus.parse_recipe(
        {
            "benchmark": "imagenet_to_sketch",
            "root": str(root),
            "domains": ["cubs_cropped", "flowers", "imagenet"],
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
                {"benchmark": "imagenet_to_sketch", "root": str(root), "domains": ["wikiart"], "backbone": "wrn14_2"}
            ),
            tmp_path / "other",
        )
