"""One domain's training images, on the device that trains: crops, mirrors and normalization are computed there.

Legend: B = batch.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from prunus.arrays import Integers
from prunus.data.augment import color_statistics, crop, draw_crops, normalize
from prunus.data.loading import ImageSet
from prunus.images import Preprocess
from prunus.training.learner import Batch

MEMORY_SHARE = 0.5  # of a GPU's free memory that decoded images may take


@dataclass(frozen=True)
class DomainData:
    """One domain's decoded images and their preprocessing."""

    name: str
    preprocess: Preprocess
    mirror: bool
    train: ImageSet
    validation: ImageSet | None


class Feed:
    """Makes batches of one domain. A batch is described by `picks_B4`: image, top, left, mirrored."""

    def __init__(self, domain: int, data: DomainData, device: torch.device, resident: bool) -> None:
        self._domain = domain
        self._data = data
        self._device = device
        self._mean, self._std = color_statistics(data.preprocess, device)
        self.resident = resident
        if resident:
            self._images = torch.from_numpy(np.array(data.train.images)).to(device)
            self._labels = torch.from_numpy(data.train.labels).to(device)

    def draw(self, indices: Integers, generator: torch.Generator) -> Tensor:
        """Draw the crops of a batch: picks_B4, in pinned memory where a GPU reads them."""
        preprocess = self._data.preprocess
        margin = preprocess.resize - preprocess.size
        crops_B3 = draw_crops(len(indices), margin, self._data.mirror, generator)
        picks_B4 = torch.cat([torch.from_numpy(indices)[:, None], crops_B3], dim=1)
        return picks_B4.pin_memory() if self._device.type == "cuda" else picks_B4

    def batch(self, picks_B4: Tensor) -> Batch:
        """Make the batch that was drawn; `picks_B4` is on the device if the images are."""
        if self.resident:
            stored, labels = self._images[picks_B4[:, 0]], self._labels[picks_B4[:, 0]]
        else:
            indices = picks_B4[:, 0].numpy()
            stored = torch.from_numpy(np.asarray(self._data.train.images[indices])).to(self._device)
            labels = torch.from_numpy(self._data.train.labels[indices]).to(self._device)
        crops = crop(stored, picks_B4[:, 1:].to(self._device), self._data.preprocess.size)
        return Batch(self._domain, normalize(crops, self._mean, self._std), labels)


def make_feeds(data: Sequence[DomainData], device: torch.device) -> list[Feed]:
    """Make a feed per domain; images move to a GPU where all of them fit."""
    resident = False
    if device.type == "cuda":
        free, _ = torch.cuda.mem_get_info(device)
        resident = sum(domain.train.images.nbytes for domain in data) < MEMORY_SHARE * free
    return [Feed(index, domain, device, resident) for index, domain in enumerate(data)]
