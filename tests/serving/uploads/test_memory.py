"""The memory that images take is known before they are decoded."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from PIL import Image

from prunus.serving.uploads.decoding import decode
from prunus.serving.uploads.memory import PHOTO_BYTES, image_budget, largest_bytes
from prunus.serving.uploads.process import ENVIRONMENT
from tests.makers.live_service import encode
from tests.makers.upload_bodies import TURNED, flat_png, form, task

SIDES = (2600, 1200)
PIXELS = SIDES[0] * SIDES[1]
RGBA = Image.new("RGBA", SIDES, (255, 0, 0, 128))
RGB = RGBA.convert("RGB")
KINDS = {  # an image and the bytes for each of its pixels
    "jpeg": (encode([RGB], "JPEG"), 4),
    "turned jpeg": (encode([RGB], "JPEG", exif=TURNED), 8),
    "grey jpeg": (encode([RGB.convert("L")], "JPEG"), 8),
    "progressive jpeg": (encode([RGB], "JPEG", progressive=True), 10),
    "progressive cmyk": (encode([RGB.convert("CMYK")], "JPEG", progressive=True), 12),
    "turned png": (encode([RGBA], "PNG", exif=TURNED), 8),
    "16-bit png": (encode([Image.new("I;16", SIDES)], "PNG", exif=TURNED), 8),
    "bmp": (encode([RGB], "BMP"), 4),
    "lossy webp": (encode([RGBA], "WEBP", quality=10, method=0, exif=TURNED), 12),
    "lossless webp": (encode([RGBA], "WEBP", lossless=True, method=0, exif=TURNED), 12),
}
MEASURE = """
import sys
from pathlib import Path
from prunus.serving.uploads.decoding import decode
from tests.makers.upload_bodies import form, task
def kilobytes(name):
    return int(Path("/proc/self/status").read_text().partition(name)[2].split()[0])
decode(task(), form(Path(sys.argv[1]).read_bytes()))
for path in sys.argv[1:]:
    body = form(Path(path).read_bytes())
    Path("/proc/self/clear_refs").write_text("5")
    before = kilobytes("VmRSS:")
    assert decode(task(), body)[0].names
    print(1024 * (kilobytes("VmHWM:") - before))
"""


def _told(content: bytes) -> int:
    answer, images = decode(task(max_memory=0), form(content))
    assert (answer.status, images) == (0, b"")
    return answer.memory


@pytest.mark.parametrize("kind", KINDS)
def test_the_memory_of_an_image_depends_on_its_format(kind: str) -> None:
    content, pixel_bytes = KINDS[kind]
    assert _told(content) == pytest.approx(pixel_bytes * PIXELS + 3 * len(content) + 6_000_000, abs=200_000)


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/clear_refs").exists(), reason="reads the memory of a process")
def test_no_image_takes_more_memory_than_is_expected(tmp_path: Path) -> None:
    paths = [tmp_path / str(number) for number in range(len(KINDS))]
    for path, (content, _) in zip(paths, KINDS.values(), strict=True):
        path.write_bytes(content)
    lines = subprocess.check_output(
        [sys.executable, "-c", MEASURE, *map(str, paths)],
        text=True,
        env=ENVIRONMENT | {"PYTHONPATH": ":".join(sys.path)},
    ).split()
    for (kind, (content, pixel_bytes)), taken in zip(KINDS.items(), map(int, lines), strict=True):
        assert taken <= _told(content) + 500_000, kind
        assert taken >= 0.5 * pixel_bytes * PIXELS, kind  # the expectation is not far off


def test_the_largest_image_and_a_photograph_always_fit() -> None:
    assert image_budget(32_000_000, 2) == 12 * 32_000_000 + 16_000_000 + PHOTO_BYTES
    assert image_budget(1_000_000, 8) == 8 * PHOTO_BYTES


def test_every_image_within_the_limits_may_be_decoded_but_for_absurd_sides() -> None:
    assert largest_bytes(32_000_000) >= 12 * 32_000_000 + 32 * 2 * 16_383 + 6_000_000  # the largest WebP
    answer, _ = decode(task(max_pixels=1_000_000), form(flat_png(1, 1_000_000)))
    assert (answer.status, "too much memory" in answer.message, answer.exhausted) == (413, True, False)
