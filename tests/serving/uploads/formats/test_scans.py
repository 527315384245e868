"""How many scans a JPEG has: those that a decoder would meet, and nothing that only looks like one."""

from __future__ import annotations

import pytest

from prunus.serving.uploads.formats.scans import count_scans
from tests.makers.live_service import picture, scan_bomb

USUAL = picture(1, "JPEG", side=64)
LOOKS_LIKE_SCANS = b"\xff\xda" * 200


@pytest.mark.parametrize(
    ("content", "scans"),
    [
        (USUAL, 1),
        (picture(1, "JPEG", side=64, progressive=True), 10),
        (scan_bomb(100, 5000), 5000),
        (picture(1, "PNG"), 0),
        (LOOKS_LIKE_SCANS, 0),
        (b"", 0),
        (b"\xff\xd8\xff", 0),
        (b"\xff\xd8" + b"\xff\xda\x00" * 3, 1),  # the first says that it is longer than the file
    ],
)
def test_scans_are_counted_to_the_end_of_the_picture(content: bytes, scans: int) -> None:
    assert count_scans(content) == scans


def test_what_a_phone_hides_in_a_photograph_or_puts_behind_it_is_no_scan() -> None:
    assert count_scans(picture(1, "JPEG", comment=LOOKS_LIKE_SCANS) + LOOKS_LIKE_SCANS) == 1


@pytest.mark.parametrize("marker", [0x01, 0x02, 0xBF, 0xD0])
def test_scans_cannot_hide_behind_a_marker_that_decoders_skip(marker: int) -> None:
    bomb, hides = USUAL[:-2], bytes([0xFF, marker])
    hidden = hides + b"\xff\xff" + LOOKS_LIKE_SCANS.replace(b"\xff\xda", b"\xff\xda\x00\x02")
    assert count_scans(bomb + hidden) == 201
