"""What an alternative is: how it is made, and what is shipped in the end."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from prunus.arrays import Floats
from prunus.config import Recipe
from prunus.data.layouts import open_domain
from prunus.evaluation.rival_accuracy import training_images
from prunus.evaluation.subject import Subject
from prunus.learning.feed import DomainData
from prunus.measure.result import Result
from prunus.parallel.processes import ALONE
from prunus.run_folder import RunFolder
from prunus.training.observers import Observers
from prunus.training.run import TrainedRun
from prunus.training.setup import RecipeTraining


class Answering(Result):
    """The file that answers for a domain, in the folder of the alternative, and its output if it has several."""

    file: str
    output: str | None = None


class Shipped(Result):
    """What a finished alternative consists of.

    Args:
        recipe: that it was made from.
        counted: the files that a user ships for all domains together, in the folder of the alternative.
        answering: domain -> what is run. What a device makes of the files that are shipped is not counted.
        macs: domain -> multiply-accumulates of one image.
    """

    recipe: Recipe
    counted: tuple[str, ...]
    answering: dict[str, Answering]
    macs: dict[str, int]


@dataclass(frozen=True)
class Task:
    """A recipe to make an alternative from, and what it has in common with ours.

    Args:
        recipe: as ours was trained, with its length.
        folder: of the alternative's own files.
        ours: our trained run, whose images, preprocessing and MACs the others share.
        subject: the same run as something to measure.
    """

    recipe: Recipe
    folder: Path
    ours: TrainedRun
    subject: Subject
    observer: Observers
    device: str
    use_cache: bool

    @property
    def size(self) -> int:
        """Return the side of the images that the network sees."""
        return self.ours.backbone.preprocess.size

    @property
    def classes(self) -> dict[str, int]:
        """Return the number of classes of every domain."""
        return {name: len(classes) for name, classes in self.ours.checkpoint.identity.classes.items()}

    @cached_property
    def data(self) -> list[DomainData]:
        """Load the training images of all domains, as ours was trained with."""
        training = RecipeTraining(self.recipe, RunFolder(self.folder), self.observer, self.use_cache, ALONE)
        share = self.recipe.training.validation_share
        return training.load_data(self.ours.backbone, [open_domain(choice, share) for choice in self.recipe.domains])

    @cached_property
    def calibration(self) -> dict[str, Floats]:
        """Return some training images of every domain, from which ranges of 8-bit numbers are learned."""
        return training_images(self.subject, tuple(self.classes), None)

    def macs_of_ours(self) -> float:
        """Return the mean over the domains of our multiply-accumulates."""
        return sum(map(self.subject.costs.macs, self.classes)) / len(self.classes)


@dataclass(frozen=True)
class Alternative:
    """A row of the table.

    Args:
        title: what it is, in words.
        make: trains it and writes its files.
        packages: that it needs beside those that train.
        has_budget: whether it is made once per budget.
    """

    title: str
    make: Callable[[Task], Shipped]
    packages: tuple[str, ...] = ()
    has_budget: bool = False
