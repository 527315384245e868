"""Turn logits into probabilities, over one or several crops of an image; no torch.

Legend: N = images, K = classes, R = stored side.
"""

from collections.abc import Callable

import numpy as np

from prunus.arrays import Bytes, Floats
from prunus.images import Preprocess, crop_windows

Logits = Callable[[Floats], Floats]
Classifier = Callable[[Bytes, Preprocess, int], Floats]  # stored images, preprocessing, crops -> probabilities


def softmax(logits_NK: Floats) -> Floats:
    """Turn logits into probabilities."""
    powers = np.exp(logits_NK - logits_NK.max(-1, keepdims=True))
    probabilities: Floats = powers / powers.sum(-1, keepdims=True)
    return probabilities


def crop_probabilities(logits: Logits, stored_NRR: Bytes, preprocess: Preprocess, crops: int) -> Floats:
    """Classify stored images and average the probabilities of all crops: (N, K)."""
    windows = crop_windows(preprocess.resize, preprocess.size, crops)
    views = [softmax(logits(preprocess.normalize(preprocess.crop(stored_NRR, *window)))) for window in windows]
    mean: Floats = np.mean(views, axis=0)
    return mean
