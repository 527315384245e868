"""Decode the body of a request into the bytes of network inputs, within a budget; runs in a decoder process."""

from __future__ import annotations

import time
from dataclasses import dataclass
from http import HTTPStatus

from PIL import Image

from prunus.serving.refusals import Refusal
from prunus.serving.uploads.formats.scans import count_scans
from prunus.serving.uploads.formats.webp import canvas_pixels
from prunus.serving.uploads.memory import BODY_COPIES, expected_bytes, largest_bytes
from prunus.serving.uploads.messages import Answer, Task
from prunus.serving.uploads.parsing import Upload, split_uploads
from prunus.serving.uploads.pictures import label_of, open_picture, prepare
from prunus.serving.uploads.restraint import OutOfTime, cpu_limit

PIXEL_SECONDS = 16e-9  # for one pass over one pixel
BYTE_SECONDS = 4e-9
PROGRESSIVE_SECONDS = 0.02  # a progressive JPEG takes much longer than its pixels suggest
INFLATED_BYTES = 6  # for each pixel of the budget: 16-bit colours without alpha
LENIENCY = 6  # images may take so many times their expected time ...
LEAST_SECONDS = 1.0  # ... or this long

TOO_SLOW = "the request takes too long to decode; save its images again as standard JPEG or PNG files"
TOO_LARGE = "the request takes too much memory to decode; send smaller or fewer images"


@dataclass(frozen=True)
class Opened:
    """An image of which only the header was read, and the seconds and bytes that decoding it is expected to take."""

    picture: Image.Image
    label: str
    cost: float
    memory: int


def decode(task: Task, body: bytes) -> tuple[Answer, bytes]:
    """Decode all images of a request; refusals are answers too."""
    start = time.process_time()
    try:
        with cpu_limit(min(task.max_seconds, LEAST_SECONDS + LENIENCY * BYTE_SECONDS * len(body))):
            uploads = split_uploads(body, task.boundary.encode("latin-1"), task.max_images)
            opened = _open_all(uploads, task.max_pixels)
        cost = sum(image.cost for image in opened)
        memory = max(image.memory for image in opened) + BODY_COPIES * len(body)
        if cost > task.max_cost or memory > task.max_memory:
            return Answer(cost=cost, memory=memory, seconds=time.process_time() - start), b""
        with cpu_limit(min(task.max_seconds, LEAST_SECONDS + LENIENCY * cost)):
            content = _prepare_all(opened, task)
        names = [upload.name for upload in uploads]
        return Answer(names=names, seconds=time.process_time() - start), content
    except Refusal as refusal:
        answer = Answer(status=refusal.status, message=refusal.message)
    except OutOfTime:
        answer = Answer(status=HTTPStatus.UNPROCESSABLE_ENTITY, message=TOO_SLOW, cost=LEAST_SECONDS)
    except MemoryError:
        answer = Answer(status=HTTPStatus.REQUEST_ENTITY_TOO_LARGE, message=TOO_LARGE, exhausted=True)
    return answer.model_copy(update={"seconds": time.process_time() - start}), b""


def _open_all(uploads: list[Upload], max_pixels: int) -> list[Opened]:
    """Read the headers of all images, and refuse them if they are too large together."""
    opened: list[Opened] = []
    pixels = inflated = 0
    for number, upload in enumerate(uploads):
        label = label_of(number, len(uploads), upload)
        claimed = canvas_pixels(upload.content)  # of a WebP, which allocates them when it is opened
        if claimed <= max_pixels < pixels + claimed:
            raise _too_much(f"{pixels + claimed:,} pixels together", f"{max_pixels:,}")
        picture = open_picture(upload.content, label, max_pixels)
        pixels += picture.width * picture.height
        inflated += inflated_bytes(picture, upload.content)
        if pixels > max_pixels:
            raise _too_much(f"{pixels:,} pixels together", f"{max_pixels:,}")
        if inflated > INFLATED_BYTES * max_pixels:
            raise _too_much(f"{inflated:,} bytes when they are inflated", f"{INFLATED_BYTES * max_pixels:,}")
        cost, memory = expected_seconds(picture, upload.content), expected_bytes(picture, upload.content)
        if memory > largest_bytes(max_pixels):
            raise Refusal(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, TOO_LARGE)
        opened.append(Opened(picture, label, cost, memory))
    return opened


def expected_seconds(picture: Image.Image, content: bytes) -> float:
    """Return how long an honest image of this size takes at most, on an ordinary machine."""
    scans = max(1, count_scans(content))
    pixels = picture.width * picture.height
    return PIXEL_SECONDS * scans * pixels + BYTE_SECONDS * len(content) + PROGRESSIVE_SECONDS * (scans > 1)


def inflated_bytes(picture: Image.Image, content: bytes) -> int:
    """Return the size of a PNG's rows before they become pixels; other formats inflate nothing."""
    if picture.format != "PNG":
        return 0
    depth, colours = content[24:26]
    channels = {0: 1, 2: 3, 3: 1, 4: 2, 6: 4}.get(colours, 4)
    return picture.height * (1 + (picture.width * channels * depth + 7) // 8)


def _prepare_all(opened: list[Opened], task: Task) -> bytes:
    """Decode one image after the other; only the small arrays that the network reads are kept."""
    opened.reverse()
    inputs: list[bytes] = []
    while opened:
        image = opened.pop()  # its pixels are released before the next ones are decoded
        inputs.append(prepare(image.picture, image.label, task.preprocess).tobytes())
    return b"".join(inputs)


def _too_much(got: str, most: str) -> Refusal:
    return Refusal(
        HTTPStatus.REQUEST_ENTITY_TOO_LARGE,
        f"the images have {got}; at most {most} are allowed in one request: send smaller or fewer images",
    )
