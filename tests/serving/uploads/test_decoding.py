"""Decoding a body within its budget: a predictor's network inputs, a cost, or a refusal in words."""

from __future__ import annotations

import struct
import zlib

import numpy as np
import pytest
from PIL import Image

from prunus.images import crop_windows, read_image
from prunus.serving.uploads import decoding
from prunus.serving.uploads.decoders import QUICK_COST, SMALL_BYTES
from prunus.serving.uploads.decoding import decode, inflated_bytes
from prunus.serving.uploads.pictures import open_picture
from tests.makers.live_service import Live, encode, picture, scan_bomb
from tests.makers.upload_bodies import PREPROCESS, chunk, flat_png, form, rle_bmp, task

HONEST = {
    "png": picture(1),
    "jpeg": picture(2, "JPEG", side=300),
    "progressive": picture(3, "JPEG", side=300, progressive=True),
    "webp": picture(4, "WEBP", side=50),
    "lossless webp": picture(5, "WEBP", side=50, lossless=True),
    "bmp": picture(6, "BMP"),
    "ppm": picture(7, "PPM"),
    "16-bit pgm": b"P5\n3 1\n65535\n" + struct.pack(">3H", 0, 30_000, 65_535),
    "grey": encode([Image.new("L", (9, 7), 80)], "PNG"),
    "alpha": encode([Image.new("RGBA", (1500, 900), (200, 10, 60, 100))], "PNG"),
    "palette": encode([Image.new("P", (9, 7), 3)], "PNG", transparency=3),
    "turned": picture(
        8, "JPEG", side=40, exif=b"Exif\0\0II*\0\x08\0\0\0\x01\0\x12\x01\x03\0\x01\0\0\0\x06\0\0\0\0\0\0\0"
    ),
}


@pytest.mark.parametrize("kind", HONEST)
def test_an_honest_image_is_decoded_bit_by_bit_as_a_predictor_does(kind: str) -> None:
    answer, content = decode(task(), form(HONEST[kind]))
    assert (answer.status, answer.message, answer.names) == (0, "", ["0"])
    window = crop_windows(PREPROCESS.resize, PREPROCESS.size, 1)[0]
    expected = PREPROCESS.normalize(PREPROCESS.crop(PREPROCESS.store(read_image(HONEST[kind])), *window))
    found = np.frombuffer(content, np.uint8).reshape(3, PREPROCESS.size, PREPROCESS.size)
    assert PREPROCESS.normalize(found).tobytes() == np.ascontiguousarray(expected).tobytes()


def test_all_images_are_returned_in_order() -> None:
    parts = [decode(task(), form(content))[1] for content in HONEST.values()]
    answer, content = decode(task(), form(*HONEST.values()))
    assert content == b"".join(parts)
    assert len(answer.names) == len(HONEST)
    assert answer.seconds > 0


@pytest.mark.parametrize(
    ("content", "kind"),
    [
        (rle_bmp(31_999_999), "a run-length encoded BMP"),
        (b"P3\n1 1\n255\n1 2 3\n", "a plain-text PPM, PGM or PBM"),
        (b"P2\n1 1\n255\n1\n", "a plain-text PPM, PGM or PBM"),
        (b"P1\n1 1\n1\n", "a plain-text PPM, PGM or PBM"),
        (b"P6\n1 1\n100\n123", "a PPM or PGM whose largest value is neither 255 nor 65535"),
        (b"Pf\n1 1\n-1.0\n" + struct.pack("<f", 200.0), "a PFM"),
    ],
)
def test_formats_that_are_decoded_in_python_and_numbers_without_range_are_refused(content: bytes, kind: str) -> None:
    answer, images = decode(task(), form(content))
    assert (answer.status, images) == (415, b"")
    assert answer.message == f"the image ('0') is {kind}, which is not supported: save it as PNG"


def test_the_service_refuses_a_tiny_file_of_a_million_pixels_and_a_pfm(live: Live) -> None:
    bomb = rle_bmp(999_999)
    assert len(bomb) == 64
    refused = live.predict(bomb)
    assert refused.status_code == 415
    assert "is a run-length encoded BMP" in refused.json()["error"]
    refused = live.predict(b"Pf\n8 8\n-1.0\n" + struct.pack("<64f", *range(64)))
    assert refused.status_code == 415
    assert "is a PFM" in refused.json()["error"]


def test_the_pixels_of_all_images_together_are_limited() -> None:
    half = flat_png(100, 50)
    assert decode(task(max_pixels=10_000), form(half, half))[0].status == 0
    answer, _ = decode(task(max_pixels=9_999), form(half, half))
    assert answer.status == 413
    assert "the images have 10,000 pixels together; at most 9,999 are allowed in one request" in answer.message


def test_many_images_of_the_largest_size_are_refused_before_any_is_decoded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(decoding, "prepare", None)  # would fail if it were called
    huge = b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", 8000, 4000, 8, 6, 0, 0, 0))
    huge += chunk(b"IDAT", zlib.compress(bytes(1000))) + chunk(b"IEND", b"")
    answer, _ = decode(task(), form(*[huge] * 16))
    assert answer.status == 413
    assert "the images have 64,000,000 pixels together" in answer.message


def test_what_is_inflated_for_all_images_together_is_limited() -> None:
    deep = b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", 100, 100, 16, 6, 0, 0, 0))
    deep += chunk(b"IDAT", zlib.compress(bytes(100 * 801))) + chunk(b"IEND", b"")
    assert inflated_bytes(Image.new("RGBA", (100, 100)), deep) == 0  # not a PNG that was opened
    assert decode(task(max_pixels=13_350), form(deep))[0].status == 0
    answer, _ = decode(task(max_pixels=13_349), form(deep))
    assert answer.status == 413
    assert "the images have 80,100 bytes when they are inflated; at most 80,094 are allowed" in answer.message


def test_images_that_cost_more_than_allowed_are_not_decoded_and_their_cost_is_told() -> None:
    answer, content = decode(task(max_cost=QUICK_COST), form(flat_png(900, 900)))
    assert (answer.status, content) == (0, b"")
    assert answer.cost == pytest.approx(16e-9 * 900 * 900, rel=0.1)


@pytest.mark.parametrize(
    ("content", "quick"),
    [
        (picture(1, "JPEG", side=64), True),
        (picture(1, side=700), True),
        (picture(1, side=800), False),
        (picture(1, "JPEG", side=64, progressive=True), False),
        (scan_bomb(300, 100), False),
    ],
)
def test_small_images_are_quick_but_for_those_with_many_passes(content: bytes, quick: bool) -> None:
    assert len(content) < SMALL_BYTES
    assert (decode(task(max_cost=QUICK_COST), form(content))[0].cost == 0) is quick


def test_a_small_file_with_many_pixels_and_a_progressive_photograph_are_answered_too(live: Live) -> None:
    live.assert_right(encode([Image.new("RGB", (900, 900), "teal")], "PNG"), picture(1))
    live.assert_right(picture(1, "JPEG", side=64, progressive=True))
    live.assert_right(scan_bomb(300, 100), picture(1))


@pytest.mark.parametrize("place", ["prunus.images._to_rgb", "prunus.serving.uploads.decoding.open_picture"])
def test_images_that_take_too_much_memory_are_refused(place: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def run_out(*_: object) -> None:
        raise MemoryError

    monkeypatch.setattr(place, run_out)
    answer, _ = decode(task(), form(picture(1)))
    assert (answer.status, answer.message, answer.exhausted) == (413, decoding.TOO_LARGE, True)


def test_the_pixels_of_several_webps_are_counted_before_they_are_opened(monkeypatch: pytest.MonkeyPatch) -> None:
    opened: list[bytes] = []

    def note(content: bytes, label: str, max_pixels: int) -> object:
        opened.append(content)
        return open_picture(content, label, max_pixels)

    monkeypatch.setattr(decoding, "open_picture", note)
    one = picture(1, "WEBP", side=50)
    assert decode(task(max_pixels=5_000), form(one, one))[0].status == 0
    answer, _ = decode(task(max_pixels=4_999), form(one, one))
    assert (answer.status, len(opened)) == (413, 3)
    assert "the images have 5,000 pixels together; at most 4,999 are allowed" in answer.message


def test_a_webp_that_does_not_fit_in_memory_is_no_damaged_file(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("prunus.serving.uploads.formats.webp.CANVAS_BYTES", 2**50)
    damaged = picture(1, "WEBP", side=50)[:60]
    answer, _ = decode(task(), form(damaged))
    assert (answer.status, answer.exhausted) == (413, True)
    answer, _ = decode(task(max_pixels=2_499), form(damaged))
    assert (answer.status, answer.exhausted, "has 2,500 pixels" in answer.message) == (413, False, True)
