"""Uploaded files: readable still images of a bounded size are decoded, everything else is refused with a reason."""

from __future__ import annotations

import struct
import zlib
from pathlib import Path

import pytest
from PIL import Image

import prunus
from prunus.serving.uploads.parsing import Upload
from prunus.serving.uploads.pictures import _not_an_image, label_of
from tests.makers.live_service import Live, encode, picture, scan_bomb


def test_a_photograph_with_a_preview_inside_is_no_animation(live: Live) -> None:
    frames = [Image.new("RGB", (16, 16), colour) for colour in ("red", "blue")]
    live.assert_right(encode(frames, "MPO"))


def _frames() -> list[Image.Image]:
    return [Image.new("RGB", (8, 8), colour) for colour in ("red", "green")]


def _bomb(width: int, height: int) -> bytes:
    def chunk(name: bytes, content: bytes) -> bytes:
        return struct.pack(">I", len(content)) + name + content + struct.pack(">I", zlib.crc32(name + content))

    head = chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0))
    return b"\x89PNG\r\n\x1a\n" + head + chunk(b"IDAT", zlib.compress(bytes(10_000))) + chunk(b"IEND", b"")


@pytest.mark.parametrize(
    ("contents", "status", "said"),
    [
        ([b"just text"], 415, "the image ('0.png') is not a readable image; send JPEG, PNG, WebP or BMP"),
        ([b""], 422, "is empty (0 bytes)"),
        ([picture(1)[:60]], 422, "cannot read the image ('0.png')"),
        ([picture(1, "JPEG", side=64)[:-400]], 422, "cannot read the image ('0.png'): image file is truncated"),
        ([encode(_frames(), "GIF")], 415, "is not a readable image"),
        ([encode(_frames(), "PNG")], 415, "is an animation; send one of its frames"),
        ([encode(_frames(), "WEBP")], 415, "is an animation; send one of its frames"),
        ([_bomb(2000, 2000)], 413, "has 2000 x 2000 pixels; at most 1,000,000 are allowed"),
        ([_bomb(60_000, 60_000)], 413, "far more pixels"),
        ([scan_bomb(300, 101)], 422, "the image ('0.png') has 101 JPEG scans; at most 100 are allowed"),
        ([scan_bomb(1000, 21)], 422, "has 21 JPEG scans; at most 20 are allowed: save it again"),
        ([picture(1)[:-1]], 422, "cannot read the image ('0.png'): it is truncated"),
        ([picture(1)[:-12]], 422, "cannot read the image ('0.png'): it is truncated"),
        ([picture(1), b"text"], 415, "image 2 ('1.png') is not a readable image"),
        ([picture(1)] * 4, 413, "a request may contain at most 3 images"),
        ([bytes(1_100_000)], 413, "at most 1,000,000 are allowed"),
    ],
)
def test_what_is_no_usable_image_is_refused_with_the_reason(
    live: Live, contents: list[bytes], status: int, said: str
) -> None:
    answer = live.predict(*contents)
    assert (answer.status_code, set(answer.json())) == (status, {"error"})
    assert said in answer.json()["error"]
    live.assert_right(picture(2))


@pytest.mark.parametrize(
    ("number", "count", "name", "label"),
    [(0, 1, "a.png", "the image ('a.png')"), (1, 2, "a.png", "image 2 ('a.png')"), (0, 2, "", "image 1")],
)
def test_an_image_is_named_by_its_position_and_its_file(number: int, count: int, name: str, label: str) -> None:
    assert label_of(number, count, Upload(name, b"")) == label


def test_the_page_and_the_refusal_name_the_same_formats() -> None:
    page = (Path(prunus.__file__).parent / "serving/page/index.html").read_text()
    formats = "JPEG, PNG, WebP or BMP"
    assert f">{formats}<" in page
    assert str(_not_an_image("it")).endswith(f"send {formats}")
