"""The share of images that a network classifies correctly."""

import numpy as np
import numpy.typing as npt

from prunus.config import Crops
from prunus.data.loading import ImageSet
from prunus.images import Preprocess
from prunus.probabilities import Classifier

Labels = npt.NDArray[np.int64]


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
) -> Labels:
    """Return the most probable class of every image."""
    parts = [images.images[start : start + batch_size] for start in range(0, len(images), batch_size)]
    return np.concatenate([classifier(part, preprocess, crops).argmax(1) for part in parts])
