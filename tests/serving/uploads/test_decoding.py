"""Decoding a body: what is small enough to be decoded with its batch, and when decoding stops."""

from __future__ import annotations

from PIL import Image

from prunus.images import Preprocess
from prunus.serving.settings import ServeSettings
from prunus.serving.uploads.decoding import SMALL_BYTES, SMALL_PIXELS, Body, NotSmall, decode, decode_small
from tests.makers.live_service import Live, encode, picture, scan_bomb


def test_a_small_file_with_many_pixels_is_answered_too(live: Live) -> None:
    teal = encode([Image.new("RGB", (900, 900), "teal")], "PNG")
    assert len(teal) < SMALL_BYTES < 900 * 900 > SMALL_PIXELS
    live.assert_right(teal, picture(1))


def test_a_progressive_photograph_is_answered_but_not_where_others_wait_for_it(live: Live) -> None:
    progressive = picture(1, "JPEG", side=64, progressive=True)
    live.assert_right(progressive)
    live.assert_right(scan_bomb(300, 100), picture(1))
    for content, small in ((progressive, False), (picture(1, "JPEG", side=64), True)):
        assert _is_small(live, content) is small


def _is_small(live: Live, content: bytes) -> bool:
    form = b'--b\r\nContent-Disposition: form-data; name="images"; filename="x"\r\n\r\n' + content + b"\r\n--b--\r\n"
    preprocess = live.predictor.bundle.manifest.domains["birds"].preprocess
    try:
        decode_small(Body(form, b"b", preprocess, live.service.settings))
    except NotSmall:
        return False
    return True


def test_decoding_stops_once_the_request_is_abandoned() -> None:
    preprocess = Preprocess(size=8, resize=9, mean=(0.5, 0.5, 0.5), std=(0.5, 0.5, 0.5))
    parts = b"".join(
        b'--b\r\nContent-Disposition: form-data; name="images"; filename="x"\r\n\r\n' + picture(seed) + b"\r\n"
        for seed in range(2)
    )
    body = Body(parts + b"--b--\r\n", b"b", preprocess, ServeSettings())
    assert [image.shape for image in decode(body).images] == [(3, 8, 8)] * 2
    body.abandoned.set()
    assert decode(body).images == []
