"""Results files of the Visual Decathlon: written the same every time, read strictly, graded image by image."""

import json
import os
import tracemalloc
import zipfile
from pathlib import Path

import pytest

from prunus.data.visual_decathlon.submissions import grade, read_labels, read_results, write_results
from prunus.errors import DataError
from tests.makers.decathlon import HOSTILE_JSON
from tests.makers.hostile_files import write_liar


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
    with pytest.raises(DataError, match="1 image is not in the labels: 9"):
        grade({1: 1, 2: 1, 3: 1, 9: 1}, truth)
    repeated = [{"image_id": 1, "category_id": 2}] * 2
    (tmp_path / "r.json").write_text(json.dumps(repeated))
    with pytest.raises(DataError, match="answered images occur more than once: 1 of them, such as 1"):
        read_results(tmp_path / "r.json")


@pytest.mark.parametrize(
    "content", [*HOSTILE_JSON, '[{"image_id": "a", "category_id": 1}]', '[{"image_id": 1.5, "category_id": 1}]']
)
def test_a_results_file_of_another_form_is_refused(tmp_path: Path, content: str) -> None:
    (tmp_path / "r.json").write_text(content)
    with pytest.raises(DataError, match="is not a list of"):
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
    with pytest.raises(DataError, match=r"has no results.json; it holds other.json"):
        read_results(path)
    with pytest.raises(DataError, match="cannot read the results"):
        read_results(tmp_path / "none.zip")


def test_a_folder_without_labels_says_what_was_looked_for(decathlon: Path) -> None:
    with pytest.raises(DataError, match=r"has no test labels: looked for <set>_test\.json"):
        read_labels(decathlon / "data")


def test_ids_that_two_sets_share_are_refused(tmp_path: Path) -> None:
    content = {"images": [], "annotations": [{"image_id": 7, "category_id": 10_000_001}]}
    for name in ("aircraft", "dtd"):
        (tmp_path / f"{name}_test.json").write_text(json.dumps(content))
    with pytest.raises(DataError, match="image ids of several sets occur more than once: 1 of them, such as 7"):
        read_labels(tmp_path)
    (tmp_path / "dtd_test.json").write_text('{"images": []}')
    with pytest.raises(DataError, match="has no annotations"):
        read_labels(tmp_path)


def test_a_results_file_that_lies_about_its_size_is_refused_before_it_is_inflated(tmp_path: Path) -> None:
    path = write_liar(tmp_path / "r.zip", zipfile.ZIP_DEFLATED, "results.json")
    tracemalloc.start()
    with pytest.raises(DataError, match=r"cannot read the results .*r\.zip: it claims 1,000 bytes, but holds more"):
        read_results(path)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 4 * 2**20


def test_results_and_labels_are_regular_files(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "r.zip")
    with pytest.raises(DataError, match=r"cannot read the results .*: it is a named pipe, not a regular file"):
        read_results(tmp_path / "r.zip")
    (tmp_path / "aircraft_test.json").symlink_to("/dev/zero")
    with pytest.raises(DataError, match=r"cannot read the annotations .*: it is a device, not a regular file"):
        read_labels(tmp_path)
