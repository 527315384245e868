"""COCO-style annotation files, read strictly: integers are integers, names are text, ids are unique."""

from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Annotated, TypeVar

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError

from prunus.errors import DataError
from prunus.reading import read_file

MAX_ANNOTATION_BYTES = 2**30  # more than a million images
T = TypeVar("T")
LARGEST_ID = 2**53
Id = Annotated[int, Field(ge=0, le=LARGEST_ID)]


class _Entry(BaseModel):
    model_config = ConfigDict(frozen=True, strict=True)  # other keys, such as width and license, are ignored


class Image(_Entry):
    """One image of an annotation file."""

    id: Id
    file_name: str = Field(min_length=1, max_length=1000)


class Answer(_Entry):
    """The category of an image: an annotation, or a line of a results file."""

    image_id: Id
    category_id: Id


class Category(_Entry):
    """One class."""

    id: Id
    name: str


class Annotations(_Entry):
    """One annotation file."""

    images: list[Image]
    annotations: list[Answer] = []
    categories: list[Category] = []


def read_annotations(file: Path) -> Annotations:
    """Read an annotation file, in which no image and no annotated image occurs twice."""
    try:
        text = read_file(file, MAX_ANNOTATION_BYTES)
    except OSError as error:
        raise DataError(f"cannot read the annotations {file}: {error.strerror or error}") from None
    content = parse_json(TypeAdapter(Annotations), text, f"{file} is not a COCO-style annotation file")
    refuse_repeated((image.id for image in content.images), f"{file}: ids of 'images'")
    refuse_repeated((answer.image_id for answer in content.annotations), f"{file}: image ids of 'annotations'")
    return content


def parse_json(adapter: TypeAdapter[T], text: bytes, complaint: str) -> T:
    """Parse JSON of a known form; an error names the first value that does not fit."""
    try:
        return adapter.validate_json(text)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False, include_context=False)[0]
        where = ".".join(map(str, first["loc"]))
        raise DataError(f"{complaint}: {where + ': ' if where else ''}{first['msg']}") from None


def refuse_repeated(ids: Iterable[int], what: str) -> None:
    """Refuse ids that occur more than once."""
    repeated = [str(number) for number, count in Counter(ids).items() if count > 1]
    if repeated:
        raise DataError(f"{what} occur more than once: {len(repeated)} of them, such as {', '.join(repeated[:3])}")
