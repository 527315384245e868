"""WebP files: their size is known before they are opened, and their pixels are those that Pillow decodes."""

from __future__ import annotations

import io

import pytest
from PIL import Image
from PIL.WebPImagePlugin import WebPImageFile

from prunus.images import read_image
from prunus.serving.uploads.formats import webp
from prunus.serving.uploads.formats.webp import NO_DECODER, canvas_pixels, decode_webp, lacked_memory
from tests.makers.live_service import encode, picture
from tests.makers.upload_bodies import TURNED

NOISE = Image.frombytes("RGBA", (50, 31), bytes(number * number % 251 for number in range(50 * 31 * 4)))
KINDS = {
    "lossy": encode([NOISE.convert("RGB")], "WEBP", quality=40),
    "lossy with alpha": encode([NOISE], "WEBP", quality=40),
    "lossless": encode([NOISE], "WEBP", lossless=True),
    "lossless without alpha": encode([NOISE.convert("RGB")], "WEBP", lossless=True),
    "turned": encode([NOISE], "WEBP", lossless=True, exif=TURNED),
}


@pytest.mark.parametrize("kind", KINDS)
def test_the_pixels_are_those_of_pillow_and_are_turned_upright(kind: str) -> None:
    opened = Image.open(io.BytesIO(KINDS[kind]))
    assert isinstance(opened, WebPImageFile)
    found = decode_webp(opened)
    expected = Image.open(io.BytesIO(KINDS[kind]))
    assert (found.mode, found.size, found.tobytes()) == (expected.mode, expected.size, expected.tobytes())
    assert read_image(found).tobytes() == read_image(KINDS[kind]).tobytes()
    assert read_image(found).size == ((31, 50) if kind == "turned" else (50, 31))


@pytest.mark.parametrize("kind", KINDS)
def test_the_header_tells_the_pixels(kind: str) -> None:
    assert canvas_pixels(KINDS[kind]) == 50 * 31


@pytest.mark.parametrize("content", [b"", b"RIFF", picture(1), picture(1, "JPEG"), b"RIFF1234WEBPVP9 " + bytes(20)])
def test_other_files_claim_no_pixels(content: bytes) -> None:
    assert canvas_pixels(content) == 0


@pytest.mark.parametrize("kind", KINDS)
def test_a_damaged_file_does_not_lack_memory(kind: str) -> None:
    with pytest.raises(OSError, match=NO_DECODER) as failed:
        Image.open(io.BytesIO(KINDS[kind][:40])).load()
    assert not lacked_memory(failed.value, KINDS[kind][:40])


def test_a_file_whose_canvases_do_not_fit_lacks_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(webp, "CANVAS_BYTES", 2**50)  # more addresses than any machine has
    assert lacked_memory(OSError(NO_DECODER), KINDS["lossy"])
    assert not lacked_memory(OSError("another reason"), KINDS["lossy"])
