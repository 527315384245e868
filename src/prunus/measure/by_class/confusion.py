"""Count which classes a model takes for which, and list the mistakes that it was most sure of.

Legend: N = images.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import numpy.typing as npt

from prunus.arrays import Floats
from prunus.measure.result import Result, Share

MOST_MISTAKES = 8  # that are listed of a domain

Labels = npt.NDArray[np.int64]


class ClassResult(Result):
    """How many images of a class there are, and how many of them are classified correctly."""

    name: str
    images: int
    correct: int

    @property
    def accuracy(self) -> float | None:
        """Return the share of correct images; None without images."""
        return self.correct / self.images if self.images else None


class Confusion(Result):
    """The number of images of one class that are taken for another."""

    truth: str
    predicted: str
    images: int


class Mistake(Result):
    """An image that is classified wrongly.

    Args:
        probability: of the predicted class.
        picture: a small copy of the image as a data URL; empty if none was kept.
    """

    file: str
    truth: str
    predicted: str
    probability: Share
    picture: str = ""


class ByClass(Result):
    """The results of every class of a domain.

    Args:
        confusions: most frequent first; pairs that do not occur are omitted.
        mistakes: those with the highest probabilities, highest first.
    """

    classes: tuple[ClassResult, ...]
    confusions: tuple[Confusion, ...] = ()
    mistakes: tuple[Mistake, ...] = ()

    def without_pictures(self) -> ByClass:
        """Return the same results without the pictures of mistakes."""
        mistakes = tuple(mistake.model_copy(update={"picture": ""}) for mistake in self.mistakes)
        return self.model_copy(update={"mistakes": mistakes})

    def matrix(self) -> list[list[int]]:
        """Return the number of images by true class (rows) and predicted class (columns)."""
        places = {result.name: place for place, result in enumerate(self.classes)}
        counts = np.diag([result.correct for result in self.classes])
        for confusion in self.confusions:
            counts[places[confusion.truth], places[confusion.predicted]] = confusion.images
        rows: list[list[int]] = counts.tolist()
        return rows


def count_classes(classes: Sequence[str], truths_N: Labels, predicted_N: Labels) -> ByClass:
    """Count the images of every class, the correct ones, and the confusions."""
    size = len(classes)
    images = np.bincount(truths_N, minlength=size).tolist()
    correct = np.bincount(truths_N[truths_N == predicted_N], minlength=size).tolist()
    wrong = np.flatnonzero(truths_N != predicted_N)
    cells, counts = np.unique(truths_N[wrong] * size + predicted_N[wrong], return_counts=True)
    confusions = [
        Confusion(truth=classes[cell // size], predicted=classes[cell % size], images=count)
        for cell, count in zip(cells.tolist(), counts.tolist(), strict=True)
    ]
    return ByClass(
        classes=tuple(
            ClassResult(name=name, images=total, correct=right)
            for name, total, right in zip(classes, images, correct, strict=True)
        ),
        confusions=tuple(sorted(confusions, key=lambda confusion: -confusion.images)),  # ties stay in class order
    )


def surest_mistakes(
    classes: Sequence[str],
    truths_N: Labels,
    predicted_N: Labels,
    probabilities_N: Floats,
    describe: Callable[[int], tuple[str, str]],
) -> tuple[Mistake, ...]:
    """List the wrong predictions with the highest probabilities.

    Args:
        probabilities_N: of the predicted classes.
        describe: number of an image -> its file name and its picture.
    """
    wrong = np.flatnonzero(truths_N != predicted_N)
    surest = wrong[np.argsort(-probabilities_N[wrong], kind="stable")][:MOST_MISTAKES].tolist()
    described = [describe(image) for image in surest]
    return tuple(
        Mistake(
            file=file,
            truth=classes[truths_N[image]],
            predicted=classes[predicted_N[image]],
            probability=float(probabilities_N[image]),
            picture=picture,
        )
        for image, (file, picture) in zip(surest, described, strict=True)
    )
