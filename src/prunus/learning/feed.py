"""One domain's training images, on the device that trains: crops, mirrors and normalization are computed there.

Legend: B = batch, R = stored side, S = input side of the network.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from prunus.arrays import Bytes, Integers
from prunus.config import Recipe
from prunus.data.augment import color_statistics, crop, draw_crops, normalize
from prunus.data.loading import ImageSet
from prunus.images import Preprocess
from prunus.learning.learner import Batch

MEMORY_SHARE = 0.5  # of a GPU's free memory that decoded images may take
Inputs = tuple[Tensor, ...]  # what the host sends for one domain of a step


@dataclass(frozen=True)
class DomainData:
    """One domain's decoded images and their preprocessing."""

    name: str
    preprocess: Preprocess
    mirror: bool
    train: ImageSet
    validation: ImageSet | None


@dataclass(frozen=True)
class StepJob:
    """A step whose images are to be drawn: the seed of its crops, and the images of every domain in it."""

    seed: int
    parts: tuple[tuple[int, Integers], ...]


class Feed:
    """Makes batches of one domain: `draw` on the host, then `batch` on the device.

    Images that are resident on the device need only their indices, corners and mirrors from the host. Otherwise the
    host sends the stored images along.
    """

    def __init__(self, domain: int, data: DomainData, device: torch.device, resident: bool, balanced: bool) -> None:
        self._domain = domain
        self._data = data
        self._mean, self._std = color_statistics(data.preprocess, device)
        self._weights = balanced_weights(data.train.labels).to(device) if balanced else None
        self.resident = resident
        if resident:
            self._images = torch.from_numpy(np.array(data.train.images)).to(device)
            self._labels = torch.from_numpy(data.train.labels).to(device)

    def draw(self, indices: Integers, generator: torch.Generator) -> Inputs:
        """Draw the crops of a batch and collect what the device lacks."""
        preprocess = self._data.preprocess
        crops_B3 = draw_crops(len(indices), preprocess.resize - preprocess.size, self._data.mirror, generator)
        if self.resident:
            return torch.from_numpy(indices), crops_B3
        train = self._data.train
        return crops_B3, torch.from_numpy(_rows(train.images, indices)), torch.from_numpy(train.labels[indices])

    def batch(self, inputs: Inputs) -> Batch:
        """Make the batch that was drawn; `inputs` are on the device."""
        if self.resident:
            indices_B, crops_B3 = inputs
            stored_BRR, labels_B = self._images[indices_B], self._labels[indices_B]
        else:
            crops_B3, stored_BRR, labels_B = inputs
        images_BSS = crop(stored_BRR, crops_B3, self._data.preprocess.size)
        return Batch(self._domain, normalize(images_BSS, self._mean, self._std), labels_B, self._weights)


def make_feeds(data: Sequence[DomainData], device: torch.device, recipe: Recipe) -> list[Feed]:
    """Make a feed per domain; images move to a GPU if all of them fit."""
    resident = False
    if device.type == "cuda":
        free, _ = torch.cuda.mem_get_info(device)
        resident = sum(domain.train.images.nbytes for domain in data) < MEMORY_SHARE * free
    balanced = recipe.training.class_weights == "balanced"
    return [Feed(index, domain, device, resident, balanced) for index, domain in enumerate(data)]


def drawing(feeds: Sequence[Feed], pinned: bool) -> Callable[[StepJob], list[Inputs]]:
    """Return a function that draws the inputs of a step, in pinned memory if a GPU reads them."""

    def draw(job: StepJob) -> list[Inputs]:
        generator = torch.Generator().manual_seed(job.seed)
        drawn = [feeds[domain].draw(indices, generator) for domain, indices in job.parts]
        return [tuple(tensor.pin_memory() for tensor in inputs) for inputs in drawn] if pinned else drawn

    return draw


def balanced_weights(labels: Integers) -> Tensor:
    """Return a weight per class such that every class counts the same and the mean over all images is 1."""
    counts = np.bincount(labels)
    return torch.from_numpy(len(labels) / (len(counts) * np.maximum(counts, 1))).float()


def _rows(images: Bytes, indices: Integers) -> Bytes:
    return np.ascontiguousarray(images[indices])
