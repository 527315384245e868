"""Annotation files are read strictly."""

import json
from pathlib import Path

import pytest

from prunus.data.visual_decathlon.coco import LARGEST_ID, read_annotations
from prunus.data.visual_decathlon.sets import open_decathlon_set
from prunus.errors import DataError
from tests.makers.decathlon import HOSTILE_JSON


@pytest.mark.parametrize(
    "content",
    [
        *HOSTILE_JSON,
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


def test_the_largest_id_is_read_and_the_next_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "a.json"
    assert LARGEST_ID == 2**53
    for largest in (0, LARGEST_ID):
        image = {"id": largest, "file_name": "a.jpg"}
        answer = {"image_id": largest, "category_id": largest}
        content = {"images": [image], "annotations": [answer], "categories": [{"id": largest, "name": "a"}]}
        file.write_text(json.dumps(content))
        assert read_annotations(file).annotations[0].category_id == largest
    for wrong in (-1, LARGEST_ID + 1):
        file.write_text(json.dumps({"images": [{"id": wrong, "file_name": "a.jpg"}]}))
        with pytest.raises(DataError, match=r"images\.0\.id: Input should be"):
            read_annotations(file)


def test_other_keys_are_ignored_and_lists_may_be_missing(tmp_path: Path) -> None:
    file = tmp_path / "a.json"
    file.write_text(json.dumps({"images": [{"id": 1, "file_name": "a.jpg", "width": 3}], "info": {}}))
    content = read_annotations(file)
    assert [image.file_name for image in content.images] == ["a.jpg"]
    assert content.annotations == []


def test_an_image_that_is_annotated_twice_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "a.json"
    answer = {"image_id": 1, "category_id": 1}
    file.write_text(json.dumps({"images": [{"id": 1, "file_name": "a.jpg"}], "annotations": [answer, answer]}))
    with pytest.raises(DataError, match="image ids of 'annotations' occur more than once: 1 of them, such as 1"):
        read_annotations(file)


def test_a_missing_annotation_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"cannot read the annotations .*none\.json: No such file"):
        read_annotations(tmp_path / "none.json")
