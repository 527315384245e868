"""Small pictures show the image and stay small."""

import base64
import io

import numpy as np
import pytest
from PIL import Image

from prunus.measure.by_class.pictures import SIDE, small_picture


@pytest.mark.parametrize(("side", "expected"), [(32, 32), (256, SIDE)])
def test_a_picture_keeps_colours_and_directions_at_a_limited_size(side: int, expected: int) -> None:
    stored = np.zeros((3, side, side), np.uint8)
    stored[0, : side // 2] = 255  # red above
    stored[2, :, : side // 2] = 255  # blue on the left
    kind, _, content = small_picture(stored).partition(",")
    assert kind == "data:image/jpeg;base64"
    image = Image.open(io.BytesIO(base64.b64decode(content)))
    assert image.size == (expected, expected)
    near, far = expected // 4, 3 * expected // 4
    seen = [image.getpixel(place) for place in ((near, near), (far, near), (near, far), (far, far))]
    for colour, exact in zip(seen, [(255, 0, 255), (255, 0, 0), (0, 0, 255), (0, 0, 0)], strict=True):
        assert np.abs(np.array(colour) - np.array(exact)).max() < 40


def test_a_picture_of_noise_is_still_small() -> None:
    stored = np.random.default_rng(0).integers(0, 256, (3, 256, 256), np.uint8)
    assert len(small_picture(stored)) < 12_000
