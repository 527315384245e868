"""Classes are counted as by hand, one image at a time."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from prunus.measure.by_class.confusion import MOST_MISTAKES, ByClass, ClassResult, count_classes, surest_mistakes

NAMES = ("owl", "wren", "kite", "none of these")
PAIRS = st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3)), max_size=40)


def _arrays(pairs: list[tuple[int, int]]) -> tuple[np.ndarray, np.ndarray]:
    table = np.array(pairs, np.int64).reshape(-1, 2)
    return table[:, 0], table[:, 1]


@given(PAIRS)
def test_every_image_is_counted_once_in_its_row_and_column(pairs: list[tuple[int, int]]) -> None:
    result = count_classes(NAMES, *_arrays(pairs))
    expected = [[sum(pair == (truth, predicted) for pair in pairs) for predicted in range(4)] for truth in range(4)]
    assert result.matrix() == expected
    assert [c.images for c in result.classes] == [sum(row) for row in expected]
    assert [c.correct for c in result.classes] == [expected[k][k] for k in range(4)]
    counts = [confusion.images for confusion in result.confusions]
    assert counts == sorted(counts, reverse=True)
    assert 0 not in counts
    assert ByClass.model_validate_json(result.model_dump_json()) == result


def test_confusions_name_the_true_class_first() -> None:
    result = count_classes(NAMES, *_arrays([(0, 1), (0, 1), (2, 0), (1, 1)]))
    assert [(c.truth, c.predicted, c.images) for c in result.confusions] == [("owl", "wren", 2), ("kite", "owl", 1)]


def test_the_accuracy_of_a_class_is_its_share_of_correct_images_and_unknown_without_images() -> None:
    assert ClassResult(name="owl", images=4, correct=3).accuracy == 0.75
    assert ClassResult(name="owl", images=0, correct=0).accuracy is None


@given(PAIRS, st.randoms(use_true_random=False))
def test_the_listed_mistakes_are_the_most_probable_ones(pairs: list[tuple[int, int]], random) -> None:  # type: ignore[no-untyped-def]  # noqa: ANN001
    probabilities = [random.choice([0.25, 0.5, 0.75, 1.0]) for _ in pairs]
    listed = surest_mistakes(
        NAMES, *_arrays(pairs), np.array(probabilities, np.float32), lambda image: (f"{image}.jpg", f"picture {image}")
    )
    wrong = [image for image, (truth, predicted) in enumerate(pairs) if truth != predicted]
    expected = sorted(wrong, key=lambda image: (-probabilities[image], image))[:MOST_MISTAKES]
    assert [mistake.file for mistake in listed] == [f"{image}.jpg" for image in expected]
    for mistake, image in zip(listed, expected, strict=True):
        truth, predicted = pairs[image]
        assert (mistake.truth, mistake.predicted) == (NAMES[truth], NAMES[predicted])
        assert mistake.probability == pytest.approx(probabilities[image])
        assert mistake.picture == f"picture {image}"
