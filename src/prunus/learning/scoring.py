"""Classify images with a network in training or after it, on its device.

Legend: N = images, K = classes, R = stored side.
"""

from collections.abc import Iterator

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

    @torch.inference_mode()
    def classify(stored_NRR: Bytes, preprocess: Preprocess, crops: int) -> Floats:
        probabilities_NK: Floats = _probabilities(net, domain, stored_NRR, preprocess, crops).cpu().numpy()
        return probabilities_NK

    return classify


@torch.inference_mode()
def count_correct(
    net: MultiDomainNet, domain: str, images: ImageSet, preprocess: Preprocess, rows: slice = slice(None)
) -> Tensor:
    """Count the images of some rows whose most probable class is the labelled one; the count stays on the device."""
    labels_N = torch.from_numpy(images.labels[rows]).to(net.device)
    answers = [_probabilities(net, domain, part, preprocess, 1).argmax(1) for part in _parts(images.images[rows])]
    return (torch.cat([labels_N[:0], *answers]) == labels_N).sum()


def _parts(images: Bytes) -> Iterator[Bytes]:
    for start in range(0, len(images), BATCH_SIZE):
        yield images[start : start + BATCH_SIZE]


def _probabilities(net: MultiDomainNet, domain: str, stored: Bytes, preprocess: Preprocess, crops: int) -> Tensor:
    """Average the probabilities of all crops: (N, K)."""
    stored_NRR = torch.from_numpy(np.array(stored)).to(net.device)
    statistics = color_statistics(preprocess, net.device)
    views = []
    for window in crop_windows(preprocess.resize, preprocess.size, crops):
        crops_N3 = torch.tensor(window, device=net.device).expand(len(stored_NRR), -1)
        images = normalize(crop(stored_NRR, crops_N3, preprocess.size), *statistics)
        views.append(net(images, domain).float().softmax(1))
    return torch.stack(views).mean(0)
