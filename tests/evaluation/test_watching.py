"""Who waits for a measurement learns how far it is."""

import numpy as np

from prunus.arrays import Bytes, Floats
from prunus.evaluation.watching import classifying, decoding, watched_by
from prunus.images import Preprocess

PREPROCESS = Preprocess(size=8, resize=8, mean=(0, 0, 0), std=(1, 1, 1))
Step = tuple[str, str, int, int]


def _classifier(images: Bytes, preprocess: Preprocess, crops: int) -> Floats:
    return np.full((len(images), 2), 0.5, np.float32)


def test_every_batch_is_counted_and_its_answers_are_unchanged() -> None:
    steps: list[Step] = []
    with watched_by(lambda *step: steps.append(step)):
        watched = classifying(_classifier, "birds", 5)
        decoding()("birds", 4, 5)
    for size in (3, 2):
        assert watched(np.zeros((size, 3, 8, 8), np.uint8), PREPROCESS, 1).shape == (size, 2)
    assert steps == [("decoding", "birds", 4, 5), ("classifying", "birds", 3, 5), ("classifying", "birds", 5, 5)]


def test_outside_the_block_nobody_is_told() -> None:
    steps: list[Step] = []
    with watched_by(lambda *step: steps.append(step)):
        pass
    classifying(_classifier, "birds", 1)(np.zeros((1, 3, 8, 8), np.uint8), PREPROCESS, 1)
    decoding()("birds", 1, 1)
    assert steps == []
