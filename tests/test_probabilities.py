"""Probabilities of one crop and the mean over several."""

import numpy as np
import pytest

from prunus.arrays import Floats
from prunus.images import Preprocess, crop_windows
from prunus.probabilities import crop_probabilities, softmax


def test_softmax_agrees_with_its_formula_and_survives_large_logits() -> None:
    logits = np.array([[0.0, np.log(3.0)], [5000.0, 5000.0]], np.float32)
    np.testing.assert_allclose(softmax(logits), [[0.25, 0.75], [0.5, 0.5]], rtol=1e-6)


@pytest.mark.parametrize("crops", [1, 5, 10])
def test_the_probabilities_of_all_crops_are_averaged(crops: int) -> None:
    preprocess = Preprocess(size=3, resize=5, mean=(0, 0, 0), std=(1, 1, 1))
    stored = np.random.default_rng(0).integers(0, 256, (2, 3, 5, 5), dtype=np.uint8)

    def logits(images: Floats) -> Floats:
        assert images.shape == (2, 3, 3, 3)
        return images[:, :2, 0, 0] * 4

    windows = [preprocess.crop(stored, *window) for window in crop_windows(5, 3, crops)]
    expected = sum(softmax(logits(preprocess.normalize(window))) for window in windows) / len(windows)
    np.testing.assert_allclose(crop_probabilities(logits, stored, preprocess, crops), expected, rtol=1e-6)
