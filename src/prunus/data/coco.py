"""COCO-style annotation files, read strictly: whole numbers are whole, names are text, ids come once."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import TypeVar

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError

from prunus.errors import DataError

T = TypeVar("T")
LARGEST_ID = 2**53


class _Entry(BaseModel):
    model_config = ConfigDict(frozen=True, strict=True)  # other keys, such as width and licence, are passed over


class Image(_Entry):
    """One image of an annotation file."""

    id: int = Field(ge=0, le=LARGEST_ID)
    file_name: str = Field(min_length=1, max_length=1000)


class Answer(_Entry):
    """Which category an image belongs to: an annotation, or a line of a results file."""

    image_id: int = Field(ge=0, le=LARGEST_ID)
    category_id: int = Field(ge=0, le=LARGEST_ID)


class Category(_Entry):
    """One class."""

    id: int = Field(ge=0, le=LARGEST_ID)
    name: str


class Annotations(_Entry):
    """One annotation file."""

    images: list[Image]
    annotations: list[Answer] = []
    categories: list[Category] = []


def read_annotations(file: Path) -> Annotations:
    """Read an annotation file; no image comes twice, with or without a label."""
    found = parse_json(TypeAdapter(Annotations), _read(file), f"{file} is not a COCO-style annotation file")
    refuse_repeated((image.id for image in found.images), f"{file}: ids of 'images'")
    refuse_repeated((each.image_id for each in found.annotations), f"{file}: image ids of 'annotations'")
    return found


def parse_json(adapter: TypeAdapter[T], text: bytes, complaint: str) -> T:
    """Read JSON of a known form, or say in one line where it is not."""
    try:
        return adapter.validate_json(text)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False, include_context=False)[0]
        where = ".".join(map(str, first["loc"]))
        raise DataError(f"{complaint}: {where + ': ' if where else ''}{first['msg']}") from None


def refuse_repeated(ids: Iterable[int], what: str) -> None:
    """Refuse ids that come more than once."""
    twice = [str(each) for each, count in Counter(ids).items() if count > 1]
    if twice:
        raise DataError(f"{what} come more than once: {len(twice)} of them, such as {', '.join(twice[:3])}")


def _read(file: Path) -> bytes:
    try:
        return file.read_bytes()
    except OSError as error:
        raise DataError(f"cannot read the annotations {file}: {error.strerror}") from None
