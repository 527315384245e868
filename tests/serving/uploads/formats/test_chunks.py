"""Parts of a PNG that are not needed for its pixels never reach Pillow; those that turn it upright do."""

from __future__ import annotations

import time
import zlib

import pytest

from prunus.images import read_image
from prunus.serving.uploads.formats.chunks import strip_png
from tests.makers.live_service import Live, picture
from tests.makers.upload_bodies import chunk, with_chunks

PNG = picture(1)
XMP = b'<x:xmpmeta><rdf:Description tiff:Orientation="6"/></x:xmpmeta>'
TEXT = chunk(b"zTXt", b"Comment\0\0" + zlib.compress(bytes(2**20)))
PROFILE = chunk(b"iCCP", b"name\0\0" + zlib.compress(bytes(2**20)))


def test_a_plain_png_and_other_files_stay_as_they_are() -> None:
    for content in (PNG, picture(1, "JPEG"), b"", b"text", PNG[:50]):
        assert strip_png(content) == content


@pytest.mark.parametrize("extra", [TEXT, PROFILE, chunk(b"tIME", bytes(7)), chunk(b"prVt", b"x"), PNG[8:33]])
def test_chunks_that_do_not_change_the_pixels_are_dropped(extra: bytes) -> None:
    assert strip_png(with_chunks(PNG, extra)) == PNG


def test_bytes_after_the_last_chunk_are_dropped() -> None:
    assert strip_png(PNG + TEXT) == PNG


@pytest.mark.parametrize(
    "text",
    [
        chunk(b"iTXt", b"XML:com.adobe.xmp\0\0\0\0\0" + XMP),
        chunk(b"iTXt", b"XML:com.adobe.xmp\0\1\0\0\0" + zlib.compress(XMP)),
        chunk(b"zTXt", b"XML:com.adobe.xmp\0\0" + zlib.compress(XMP)),
    ],
)
def test_a_text_that_tells_the_orientation_is_kept_once(text: bytes) -> None:
    turned = with_chunks(picture(1, side=16), text)
    assert strip_png(with_chunks(turned, text)) == turned
    assert read_image(strip_png(turned)).tobytes() == read_image(turned).tobytes()


@pytest.mark.parametrize(
    "text",
    [
        chunk(b"zTXt", b"XML:com.adobe.xmp\0\0" + zlib.compress(XMP + bytes(2**20))),
        chunk(b"iTXt", b"XML:com.adobe.xmp\0\1\0\0\0" + zlib.compress(XMP + bytes(2**20))),
        chunk(b"tEXt", b"XML:com.adobe.xmp\0" + bytes(2**20)),
        chunk(b"zTXt", b"XML:com.adobe.xmp\0\0damaged"),
    ],
)
def test_a_text_that_inflates_too_far_is_dropped(text: bytes) -> None:
    assert strip_png(with_chunks(PNG, text)) == PNG


def test_a_small_picture_with_a_hundred_megabytes_of_text_is_a_small_picture(live: Live) -> None:
    bomb = with_chunks(PNG, *[TEXT] * 100)
    assert len(bomb) < 256 * 1024
    start = time.process_time()
    live.assert_right(PNG)  # a predictor takes the file without the texts
    answer = live.predict(bomb, bomb)
    assert answer.status_code == 200
    assert time.process_time() - start < 2
    plain, *others = live.predict(PNG, bomb, PNG).json()["results"]
    assert all(other["predictions"] == plain["predictions"] for other in others)
    spent = [process for process in live.service.decoders.quick.processes if process.was_ready]
    assert len(spent) == 1
