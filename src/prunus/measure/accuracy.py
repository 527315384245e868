"""The share of images that a network classifies rightly."""

from __future__ import annotations

from prunus.config import Crops
from prunus.data.loading import ImageSet
from prunus.images import Preprocess
from prunus.probabilities import Logits, crop_probabilities


def num_crops(crops: Crops, mirrored: bool, preprocess: Preprocess) -> int:
    """Resolve the paper's rule: 1 crop where images come cropped, 5 without mirror, 10 with."""
    if crops != "paper":
        return crops
    come_cropped = preprocess.fit == "squash" or preprocess.resize == preprocess.size
    return 1 if come_cropped else 10 if mirrored else 5


def accuracy(logits: Logits, images: ImageSet, preprocess: Preprocess, crops: int = 1, batch_size: int = 256) -> float:
    """Classify every image and count the right answers."""
    right = 0
    for start in range(0, len(images), batch_size):
        chosen = slice(start, start + batch_size)
        found_N = crop_probabilities(logits, images.images[chosen], preprocess, crops).argmax(1)
        right += int((found_N == images.labels[chosen]).sum())
    return right / len(images)
