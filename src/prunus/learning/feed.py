"""One domain's training images, on the device that trains: crops, mirrors and normalization are computed there.

Legend: B = batch, R = stored side, S = input side of the network.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor
from typing_extensions import override

from prunus.arrays import Integers
from prunus.config import Recipe
from prunus.data.augment import color_statistics, crop, draw_crops, normalize
from prunus.data.loading import ImageSet
from prunus.data.policies import augment, image_seeds, make_policy
from prunus.images import Preprocess
from prunus.learning.learner import Batch
from prunus.parallel.processes import ALONE, Portion

MEMORY_SHARE = 0.5  # of a GPU's free memory that decoded images may take
Rows = slice | list[int]
EVERY_ROW = slice(None)
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
    """A step whose images are to be drawn; the recipe's seed and the step's number decide all randomness."""

    seed: int
    step: int
    parts: tuple[tuple[int, Integers], ...]

    @property
    def step_seed(self) -> int:
        """The seed of everything random in this step."""
        return int(np.random.SeedSequence([self.seed, self.step]).generate_state(1, np.uint64)[0] >> np.uint64(1))


class Feed(ABC):
    """Makes batches of one domain: `draw` on the host, then `batch` on the device."""

    def __init__(self, domain: int, data: DomainData, device: torch.device, balanced: bool) -> None:
        self._domain = domain
        self._data = data
        self._mean, self._std = color_statistics(data.preprocess, device)
        self._weights = balanced_weights(data.train.labels).to(device) if balanced else None

    @abstractmethod
    def draw(self, indices: Integers, job: StepJob, generator: torch.Generator, rows: Rows = EVERY_ROW) -> Inputs:
        """Draw the crops of some images of a step and collect what the device needs, with the batch first.

        Args:
            rows: those of the images that this process computes; the crops of the others are drawn all the same.
        """

    @abstractmethod
    def batch(self, inputs: Inputs) -> Batch:
        """Make the batch that was drawn; `inputs` are on the device."""

    def _crops(self, count: int, generator: torch.Generator) -> Tensor:
        preprocess = self._data.preprocess
        return draw_crops(count, preprocess.resize - preprocess.size, self._data.mirror, generator)

    def _cut(self, stored_BRR: Tensor, crops_B3: Tensor, labels_B: Tensor) -> Batch:
        return self._normalized(crop(stored_BRR, crops_B3, self._data.preprocess.size), labels_B)

    def _normalized(self, images_BSS: Tensor, labels_B: Tensor) -> Batch:
        return Batch(self._domain, normalize(images_BSS, self._mean, self._std), labels_B, self._weights)


class ResidentFeed(Feed):
    """All images are on the device: the host sends only their indices, corners and mirrors."""

    def __init__(self, domain: int, data: DomainData, device: torch.device, balanced: bool) -> None:
        super().__init__(domain, data, device, balanced)
        self._images = torch.from_numpy(np.array(data.train.images)).to(device)
        self._labels = torch.from_numpy(data.train.labels).to(device)

    @override
    def draw(self, indices: Integers, job: StepJob, generator: torch.Generator, rows: Rows = EVERY_ROW) -> Inputs:
        return torch.from_numpy(indices[rows]), self._crops(len(indices), generator)[rows]

    @override
    def batch(self, inputs: Inputs) -> Batch:
        indices_B, crops_B3 = inputs
        return self._cut(self._images[indices_B], crops_B3, self._labels[indices_B])


class SentFeed(Feed):
    """The host sends the stored images of every batch."""

    @override
    def draw(self, indices: Integers, job: StepJob, generator: torch.Generator, rows: Rows = EVERY_ROW) -> Inputs:
        train = self._data.train
        own = indices[rows]
        stored_BRR = torch.from_numpy(np.array(train.images[own]))
        return stored_BRR, self._crops(len(indices), generator)[rows], torch.from_numpy(train.labels[own])

    @override
    def batch(self, inputs: Inputs) -> Batch:
        return self._cut(*inputs)


class AugmentedFeed(Feed):
    """The host applies torchvision's policies and sends images of the network's size."""

    def __init__(
        self, domain: int, data: DomainData, device: torch.device, balanced: bool, policies: Sequence[str]
    ) -> None:
        super().__init__(domain, data, device, balanced)
        self._policy = make_policy(policies, data.preprocess.size, data.mirror)

    @override
    def draw(self, indices: Integers, job: StepJob, generator: torch.Generator, rows: Rows = EVERY_ROW) -> Inputs:
        train = self._data.train
        own = indices[rows]
        seeds = image_seeds(job.seed, job.step, self._domain, own)
        return augment(np.array(train.images[own]), self._policy, seeds), torch.from_numpy(train.labels[own])

    @override
    def batch(self, inputs: Inputs) -> Batch:
        return self._normalized(*inputs)


def make_feeds(data: Sequence[DomainData], device: torch.device, recipe: Recipe) -> list[Feed]:
    """Make a feed per domain; images move to a GPU if all of them fit and no policy changes them on the host."""
    training = recipe.training
    balanced = training.class_weights == "balanced"
    if training.augment:
        return [AugmentedFeed(i, domain, device, balanced, training.augment) for i, domain in enumerate(data)]
    kind = ResidentFeed if _fits(data, device) else SentFeed
    return [kind(i, domain, device, balanced) for i, domain in enumerate(data)]


def _fits(data: Sequence[DomainData], device: torch.device) -> bool:
    if device.type != "cuda":
        return False
    free, _ = torch.cuda.mem_get_info(device)
    return sum(domain.train.images.nbytes for domain in data) < MEMORY_SHARE * free


def drawing(
    feeds: Sequence[Feed], portions_of: Callable[[int], Sequence[Portion]] = ALONE.portions
) -> Callable[[StepJob], tuple[Inputs, ...]]:
    """Return a function that draws the inputs of a step, one part per domain.

    Args:
        portions_of: returns which of so many images this process computes (default: all).
    """

    def draw(job: StepJob) -> tuple[Inputs, ...]:
        generator = torch.Generator().manual_seed(job.step_seed)
        rows = [_rows(len(indices), portions_of(len(indices))) for _, indices in job.parts]
        parts = zip(job.parts, rows, strict=True)
        return tuple(feeds[domain].draw(indices, job, generator, own) for (domain, indices), own in parts)

    return draw


def balanced_weights(labels: Integers) -> Tensor:
    """Return a weight per class such that every class counts the same and the mean over all images is 1."""
    counts = np.bincount(labels)
    return torch.from_numpy(len(labels) / (len(counts) * np.maximum(counts, 1))).float()


def _rows(images: int, portions: Sequence[Portion]) -> Rows:
    rows = [row for portion in portions for row in portion.rows]
    return EVERY_ROW if len(rows) == images else rows
