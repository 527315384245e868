"""Classify the decoded images of a batch, outside the event loop.

Legend: N = images, K = classes, S = side.
"""

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass

import numpy as np

from prunus.arrays import Bytes, Floats
from prunus.probabilities import softmax
from prunus.runtime.predictor import Predictor
from prunus.serving.uploads.messages import Decoded


def _ignore() -> None:
    pass


@dataclass(frozen=True)
class Job:
    """A request: its decoded images and their domain.

    Args:
        client: clients with different values take turns.
        begins: called when the first of its images is computed.
    """

    decoded: Decoded
    domain: str
    client: Hashable = None
    begins: Callable[[], None] = _ignore


@dataclass(frozen=True)
class Ranking:
    """The indices of all classes, most probable first, and their probabilities."""

    classes: list[int]
    probabilities: list[float]


@dataclass(frozen=True)
class Ranked:
    """The answer to a request: the names of its files and a ranking for each."""

    names: list[str]
    rankings: list[Ranking]


Work = Callable[[Sequence[Bytes], Sequence[str]], list[Ranking]]  # the images of a batch and their domains


def ranking_with(predictor: Predictor) -> Work:
    """Return a function that classifies images of mixed domains together."""
    preprocess = {name: entry.preprocess for name, entry in predictor.bundle.manifest.domains.items()}

    def work(images: Sequence[Bytes], domains: Sequence[str]) -> list[Ranking]:
        names = list(domains)
        first = preprocess[names[0]]
        if all(preprocess[name] == first for name in set(names)):
            images_N3SS = first.normalize(np.stack(images))
        else:
            images_N3SS = np.stack(
                [preprocess[name].normalize(image) for image, name in zip(images, names, strict=True)]
            )
        return [order_classes(logits_K) for logits_K in predictor.logits(images_N3SS, names)]

    return work


def order_classes(logits_K: Floats) -> Ranking:
    """Sort the classes of one image as a predictor does."""
    probabilities_K = softmax(logits_K[None])[0]
    order_K = np.argsort(-probabilities_K, kind="stable")
    return Ranking(order_K.tolist(), probabilities_K[order_K].tolist())
