"""The share of images that a network classifies correctly."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from prunus.arrays import Floats
from prunus.config import Crops
from prunus.data.loading import ImageSet
from prunus.images import Preprocess
from prunus.probabilities import Classifier

Labels = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Classified:
    """The most probable class of every image, and its probability."""

    labels: Labels
    probabilities: Floats


def num_crops(crops: Crops, mirrored: bool, preprocess: Preprocess) -> int:
    """Return a number of crops; the paper's rule is 1 for cropped images, else 5, or 10 if they may be mirrored."""
    if crops != "paper":
        return crops
    is_cropped = preprocess.fit == "squash" or preprocess.resize == preprocess.size
    if is_cropped:
        return 1
    return 10 if mirrored else 5


def classify(
    classifier: Classifier, images: ImageSet, preprocess: Preprocess, crops: int = 1, batch_size: int = 256
) -> Classified:
    """Find the most probable class of every image."""
    parts = [images.images[start : start + batch_size] for start in range(0, len(images), batch_size)]
    answers = [classifier(part, preprocess, crops) for part in parts]
    labels = np.concatenate([answer.argmax(1) for answer in answers])
    return Classified(labels, np.concatenate([answer.max(1) for answer in answers]))
