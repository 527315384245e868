"""Accuracy over crops."""

from functools import partial

import numpy as np
import pytest

from prunus.arrays import Floats
from prunus.data.loading import ImageSet
from prunus.images import Preprocess
from prunus.measure.accuracy import classify, num_crops
from prunus.probabilities import crop_probabilities, softmax

PLAIN = Preprocess(size=2, resize=4, mean=(0, 0, 0), std=(1, 1, 1))


def _bright_or_dark(images: Floats) -> Floats:
    bright = images.mean((1, 2, 3))
    return np.stack([1 - bright, bright], axis=1).astype(np.float32)


def test_accuracy_counts_right_answers_over_uneven_batches() -> None:
    images = np.zeros((5, 3, 4, 4), dtype=np.uint8)
    images[[1, 4]] = 255
    labels = np.array([0, 1, 0, 0, 0])
    classifier = partial(crop_probabilities, _bright_or_dark)
    found = classify(classifier, ImageSet(images, labels), PLAIN, batch_size=2)
    assert (found.labels == labels).mean() == 0.8
    odds = np.e / (1 + np.e)  # the logits differ by 1
    assert found.probabilities == pytest.approx([odds] * 5)


def test_one_crop_sees_the_centre_and_ten_see_the_corners_too() -> None:
    image = np.zeros((1, 3, 4, 4), dtype=np.uint8)
    image[:, :, 1:3, 1:3] = 255  # bright centre, dark corners

    def brightness(crops: int) -> float:
        return float(np.log(crop_probabilities(_sure, image, PLAIN, crops)[0, 1]))

    seen: list[float] = []

    def _sure(images: Floats) -> Floats:
        seen.append(float(images.mean()))
        return np.zeros((1, 2), dtype=np.float32)

    brightness(1)
    assert seen == [1.0]
    seen.clear()
    brightness(10)
    assert seen == pytest.approx([1.0, 0.25, 0.25, 0.25, 0.25] * 2)


def test_probabilities_are_averaged_over_crops() -> None:
    image = np.zeros((1, 3, 4, 4), dtype=np.uint8)
    image[:, :, :2, :2] = 255
    logits = {1.0: [3.0, 0.0], 0.0: [0.0, 0.0], 0.25: [1.0, 0.0]}

    def network(images: Floats) -> Floats:
        return np.array([logits[float(images.mean())]], dtype=np.float32)

    expected = np.mean([softmax(np.array(logits[m])) for m in (0.25, 1.0, 0.0, 0.0, 0.0)], axis=0)
    assert crop_probabilities(network, image, PLAIN, 5)[0] == pytest.approx(expected)


@pytest.mark.parametrize(
    ("crops", "mirrored", "fit", "resize", "expected"),
    [
        (1, True, "crop", 4, 1),
        (10, False, "crop", 4, 10),
        ("paper", True, "crop", 4, 10),
        ("paper", False, "crop", 4, 5),
        ("paper", True, "squash", 4, 1),
        ("paper", True, "crop", 2, 1),
    ],
)
def test_the_papers_rule_for_crops(crops: object, mirrored: bool, fit: str, resize: int, expected: int) -> None:
    preprocess = PLAIN.model_copy(update={"fit": fit, "resize": resize})
    assert num_crops(crops, mirrored, preprocess) == expected  # type: ignore[arg-type]


def test_softmax_of_huge_logits_stays_finite() -> None:
    assert softmax(np.array([[1e4, 0.0]], dtype=np.float32)).tolist() == [[1.0, 0.0]]
