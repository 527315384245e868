"""The results file that the Visual Decathlon asks for: `results.json`, a list of {image_id, category_id}, zipped."""

import io
import json
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from pydantic import TypeAdapter

from prunus.amounts import plural
from prunus.benchmarks import DECATHLON
from prunus.data.sources import describe_folder
from prunus.data.visual_decathlon.coco import Answer, parse_json, read_annotations, refuse_repeated
from prunus.errors import DataError
from prunus.files import write_atomically
from prunus.reading import DAMAGE, OPENING, read_file, read_member

RESULTS_NAME = "results.json"
MAX_RESULTS_BYTES = 256 * 2**20
FIXED_TIME = (1980, 1, 1, 0, 0, 0)  # the same answers are the same bytes


@dataclass(frozen=True)
class Grade:
    """How many images of a set were classified correctly."""

    right: int
    images: int

    @property
    def accuracy(self) -> float:
        """The share of correct answers."""
        return self.right / self.images


def write_results(path: Path, answers: Mapping[int, int]) -> None:
    """Write answers (image id -> category id) in the format of the challenge."""
    rows = [{"image_id": image, "category_id": category} for image, category in sorted(answers.items())]
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w", zipfile.ZIP_DEFLATED) as file:
        file.writestr(zipfile.ZipInfo(RESULTS_NAME, FIXED_TIME), json.dumps(rows), zipfile.ZIP_DEFLATED)
    write_atomically(path, content.getvalue())


def read_results(path: Path) -> dict[int, int]:
    """Read answers from a zipped or plain results file; an image answered twice is an error."""
    try:
        text = _results_text(path)
    except DataError:
        raise
    except (*OPENING, *DAMAGE) as error:
        raise DataError(f"cannot read the results {path}: {error}") from None
    answers = parse_json(TypeAdapter(list[Answer]), text, f"{path} is not a list of {{image_id, category_id}}")
    refuse_repeated((answer.image_id for answer in answers), f"{path}: answered images")
    return {answer.image_id: answer.category_id for answer in answers}


def read_labels(folder: Path) -> dict[str, dict[int, int]]:
    """Read the labels of every set that has a label file: set -> image id -> category id."""
    labels: dict[str, dict[int, int]] = {}
    for name in DECATHLON.names():
        file = folder / f"{name}_test.json"
        if file.exists():
            labels[name] = {answer.image_id: answer.category_id for answer in read_annotations(file).annotations}
            if not labels[name]:
                raise DataError(f"{file} has no annotations: it lists images without labels")
    if not labels:
        raise DataError(
            f"{folder} has no test labels: looked for <set>_test.json, such as aircraft_test.json; "
            f"{describe_folder(folder)}"
        )
    refuse_repeated((image for truth in labels.values() for image in truth), f"{folder}: image ids of several sets")
    return labels


def grade(answers: Mapping[int, int], labels: Mapping[str, Mapping[int, int]]) -> dict[str, Grade]:
    """Compare answers with the labels, set by set; every labelled image needs exactly one answer."""
    known = {image for truth in labels.values() for image in truth}
    missing, extra = sorted(known - answers.keys()), sorted(answers.keys() - known)
    for what, images in (("not answered", missing), ("not in the labels", extra)):
        if images:
            raise DataError(
                f"{plural(len(images), 'image is', 'images are')} {what}: {', '.join(map(str, images[:3]))}"
            )
    return {
        name: Grade(sum(answers[image] == category for image, category in truth.items()), len(truth))
        for name, truth in labels.items()
    }


def _results_text(path: Path) -> bytes:
    if not path.is_file() or not zipfile.is_zipfile(path):  # a named pipe would be waited for
        return read_file(path, MAX_RESULTS_BYTES)
    with zipfile.ZipFile(path) as file:
        inside = {Path(info.filename).name: info for info in file.infolist()}
        info = inside.get(RESULTS_NAME)
        if info is None:
            raise DataError(f"{path} has no {RESULTS_NAME}; it holds {', '.join(inside) or 'nothing'}")
        return read_member(file, info, MAX_RESULTS_BYTES)
