"""Sets of the Visual Decathlon are joined right, and what does not add up is named."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from prunus.data.visual_decathlon.sets import category_id, open_decathlon_set
from prunus.errors import DataError
from tests.makers.decathlon import COLOURS, SETS, edit_json


def test_every_image_gets_its_own_label_though_the_files_are_shuffled(decathlon: Path) -> None:
    for name in SETS:
        domain = open_decathlon_set(decathlon, name)
        for item in domain.train + domain.validation:
            pixels = np.asarray(Image.open(decathlon / item.file), dtype=float).mean((0, 1))
            nearest = int(np.argmin([np.abs(pixels - colour).sum() for colour in COLOURS]))
            assert item.label == nearest
        assert all(item.label == -1 for item in domain.test)
        assert domain.classes == tuple(f"kind {c + 1}" for c in range(len(domain.classes)))


def test_a_wrong_root_says_what_was_looked_for_and_what_is_there(decathlon: Path, tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"looked for annotations and data in it; it holds decathlon-1.0, labels"):
        open_decathlon_set(tmp_path, "dtd")
    with pytest.raises(DataError, match="there is no folder"):
        open_decathlon_set(tmp_path / "none", "dtd")
    (decathlon / "annotations" / "dtd_val.json").unlink()
    with pytest.raises(DataError, match=r"dtd_val.json is missing; it holds aircraft_test_stripped.json"):
        open_decathlon_set(decathlon, "dtd")


def test_duplicate_ids_and_labels_out_of_range_are_named(decathlon: Path) -> None:
    file = decathlon / "annotations" / "dtd_train.json"
    original = file.read_text()

    def refused(message: str, change: Callable[[dict[str, Any]], None]) -> None:
        file.write_text(original)
        edit_json(file, change)
        with pytest.raises(DataError, match=message):
            open_decathlon_set(decathlon, "dtd")

    refused("ids of 'images' occur more than once: 1 of them, such as 4", lambda c: c["images"].append(c["images"][0]))
    refused(
        r"1 category id is out of range: image 4\d+ has 40000099; expected 40000001 to 40000047",
        lambda c: c["annotations"][0].update(category_id=40_000_099),
    )
    for wrong in (40_000_000, 10_000_001, 10**15):
        refused("1 category id is out of range", lambda c, wrong=wrong: c["annotations"][0].update(category_id=wrong))  # type: ignore[misc]
    refused("1 image has no annotation: 4", lambda c: c["annotations"].pop())
    refused("1 annotation has no image: 4", lambda c: c["images"].pop())
    refused("lists no image", lambda c: c.update(images=[], annotations=[]))
    for name in (
        "/etc/passwd",
        "data/dtd/../../x.jpg",
        "../data/x.jpg",
        "data/aircraft/train/x.jpg",
        "data/dtd/a\0b.jpg",
    ):
        refused("is not inside data/dtd", lambda c, name=name: c["images"][0].update(file_name=name))  # type: ignore[misc]
    escape = "contains the control character"
    refused(escape, lambda c: c["images"][0].update(file_name="data/dtd/\x1b[31m.jpg"))
    refused(escape, lambda c: c["categories"][0].update(name="a\x9b"))


def test_a_train_split_without_any_annotation_is_refused(decathlon: Path) -> None:
    edit_json(decathlon / "annotations" / "dtd_train.json", lambda content: content.update(annotations=[]))
    with pytest.raises(DataError, match=r"dtd_train\.json: 16 images have no annotation: 4"):
        open_decathlon_set(decathlon, "dtd")


def test_test_labels_are_all_there_or_not_at_all(decathlon: Path, tmp_path: Path) -> None:
    labels = decathlon / "annotations" / "dtd_test.json"
    labels.write_bytes((tmp_path / "labels" / "dtd_test.json").read_bytes())
    assert {item.label for item in open_decathlon_set(decathlon, "dtd").test} == {0, 1}
    edit_json(labels, lambda content: content["annotations"].pop())
    with pytest.raises(DataError, match=r"dtd_test\.json: 1 image has no annotation: 4"):
        open_decathlon_set(decathlon, "dtd")


def test_the_first_and_the_last_class_of_a_set_are_in_range(decathlon: Path) -> None:
    file = decathlon / "annotations" / "dtd_train.json"
    edit_json(file, lambda content: content["annotations"][0].update(category_id=category_id(4, 46)))
    domain = open_decathlon_set(decathlon, "dtd")
    assert len(domain.classes) == 47
    assert max(item.label for item in domain.train) == 46
    assert domain.classes[0] == "kind 1"
    assert domain.classes[46] == "dtd 47"  # a class without a name is named by its number


@pytest.mark.parametrize("prefix", ["", "decathlon-1.0/", "/data/me/decathlon-1.0/", "cut data"])
def test_file_names_may_begin_anywhere_above_the_set(decathlon: Path, prefix: str) -> None:
    before = open_decathlon_set(decathlon, "dtd").train

    def change(content: dict[str, Any]) -> None:
        for image in content["images"]:
            inside = image["file_name"].removeprefix("decathlon-1.0/")
            image["file_name"] = inside.removeprefix("data/") if prefix == "cut data" else prefix + inside

    edit_json(decathlon / "annotations" / "dtd_train.json", change)
    assert open_decathlon_set(decathlon, "dtd").train == before
