"""The share of images that a network classifies rightly."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from prunus.config import Crops
from prunus.data.loading import ImageSet
from prunus.images import Preprocess
from prunus.probabilities import Logits, crop_probabilities

Labels = npt.NDArray[np.int64]


def num_crops(crops: Crops, mirrored: bool, preprocess: Preprocess) -> int:
    """Resolve the paper's rule: 1 crop where images come cropped, 5 without mirror, 10 with."""
    if crops != "paper":
        return crops
    come_cropped = preprocess.fit == "squash" or preprocess.resize == preprocess.size
    return 1 if come_cropped else 10 if mirrored else 5


def classify(logits: Logits, images: ImageSet, preprocess: Preprocess, crops: int = 1, batch_size: int = 256) -> Labels:
    """Find the most probable class of every image."""
    parts = [images.images[start : start + batch_size] for start in range(0, len(images), batch_size)]
    found: Labels = np.concatenate([crop_probabilities(logits, part, preprocess, crops).argmax(1) for part in parts])
    return found


def accuracy(logits: Logits, images: ImageSet, preprocess: Preprocess, crops: int = 1, batch_size: int = 256) -> float:
    """Classify every image and count the right answers."""
    return float((classify(logits, images, preprocess, crops, batch_size) == images.labels).mean())
