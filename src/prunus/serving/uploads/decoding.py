"""Decode the body of a request into network inputs; small bodies can be told apart before they are decoded."""

import threading
from dataclasses import dataclass, field

from prunus.arrays import Floats
from prunus.images import Preprocess
from prunus.serving.settings import ServeSettings
from prunus.serving.uploads.parsing import Upload, split_uploads
from prunus.serving.uploads.pictures import label_of, open_picture, prepare
from prunus.serving.uploads.scans import count_scans

SMALL_BYTES = 256 * 1024
SMALL_PIXELS = 500_000  # in all images of a request; they take a few milliseconds to decode


class NotSmall(Exception):  # noqa: N818  # not an error: it decides where to decode
    """Images that would delay other requests if they were decoded with their batch."""


@dataclass(frozen=True)
class Body:
    """The body of a request, and the settings needed to decode it.

    Args:
        abandoned: set when the answer is no longer needed.
    """

    content: bytes
    boundary: bytes
    preprocess: Preprocess
    settings: ServeSettings
    abandoned: threading.Event = field(default_factory=threading.Event)


@dataclass(frozen=True)
class Decoded:
    """The images of a request as network inputs, and the names of their files."""

    names: list[str]
    images: list[Floats]


def decode(body: Body) -> Decoded:
    """Decode all files of a body; stop early if the request is abandoned."""
    return _prepare_all(body, split_uploads(body.content, body.boundary, body.settings.max_images))


def decode_small(body: Body) -> Decoded:
    """Decode a body if that is fast, else raise NotSmall."""
    if len(body.content) > SMALL_BYTES:
        raise NotSmall
    uploads = split_uploads(body.content, body.boundary, body.settings.max_images)
    pixels = 0
    for number, upload in enumerate(uploads):
        picture = open_picture(upload.content, label_of(number, len(uploads), upload), body.settings.max_pixels)
        pixels += picture.width * picture.height
        if count_scans(upload.content) > 1:  # a progressive JPEG takes much longer than its pixels suggest
            raise NotSmall
    if pixels > SMALL_PIXELS:
        raise NotSmall
    return _prepare_all(body, uploads)


def _prepare_all(body: Body, uploads: list[Upload]) -> Decoded:
    images: list[Floats] = []
    for number, upload in enumerate(uploads):
        if body.abandoned.is_set():
            break
        label = label_of(number, len(uploads), upload)
        images.append(prepare(upload, label, body.preprocess, body.settings.max_pixels))
    return Decoded([upload.name for upload in uploads], images)
