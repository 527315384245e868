"""Classify images with a network in training or after it, on its device.

Legend: N = images, K = classes, R = stored side.
"""

from collections.abc import Callable, Iterator
from functools import partial

import numpy as np
import torch
from torch import Tensor

from prunus.arrays import Bytes, Floats
from prunus.data.augment import color_statistics, crop, normalize
from prunus.data.loading import ImageSet
from prunus.images import Preprocess, crop_windows
from prunus.masks.network import MultiDomainNet
from prunus.probabilities import Classifier

BATCH_SIZE = 256


def net_classifier(net: MultiDomainNet, domain: str) -> Classifier:
    """Return a function that computes the probabilities of stored images, for measuring."""
    return make_classifier(partial(net, domain=domain), net.device)


def make_classifier(logits: Callable[[Tensor], Tensor], device: torch.device) -> Classifier:
    """Return a function from stored images to probabilities; `logits` is computed on the device."""

    @torch.inference_mode()
    def classify(stored_NRR: Bytes, preprocess: Preprocess, crops: int) -> Floats:
        probabilities_NK: Floats = _probabilities(logits, stored_NRR, preprocess, crops, device).cpu().numpy()
        return probabilities_NK

    return classify


@torch.inference_mode()
def count_correct(
    net: MultiDomainNet, domain: str, images: ImageSet, preprocess: Preprocess, rows: slice = slice(None)
) -> Tensor:
    """Count the images of some rows whose most probable class is the labelled one; the count stays on the device."""
    labels_N = torch.from_numpy(images.labels[rows]).to(net.device)
    logits = partial(net, domain=domain)
    parts = in_parts(images.images[rows])
    answers = [_probabilities(logits, part, preprocess, 1, net.device).argmax(1) for part in parts]
    return (torch.cat([labels_N[:0], *answers]) == labels_N).sum()


def in_parts(images: Bytes) -> Iterator[Bytes]:
    """Split images into batches."""
    for start in range(0, len(images), BATCH_SIZE):
        yield images[start : start + BATCH_SIZE]


def views(stored: Bytes, preprocess: Preprocess, crops: int, device: torch.device) -> Iterator[Tensor]:
    """Yield stored images as a network sees them, crop by crop."""
    stored_NRR = torch.from_numpy(np.array(stored)).to(device)
    statistics = color_statistics(preprocess, device)
    for window in crop_windows(preprocess.resize, preprocess.size, crops):
        crops_N3 = torch.tensor(window, device=device).expand(len(stored_NRR), -1)
        yield normalize(crop(stored_NRR, crops_N3, preprocess.size), *statistics)


def _probabilities(
    logits: Callable[[Tensor], Tensor], stored: Bytes, preprocess: Preprocess, crops: int, device: torch.device
) -> Tensor:
    """Average the probabilities of all crops: (N, K)."""
    return torch.stack([logits(view).float().softmax(1) for view in views(stored, preprocess, crops, device)]).mean(0)
