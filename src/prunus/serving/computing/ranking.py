"""Classify the decoded requests of a batch, outside the event loop.

Legend: K = classes.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from prunus.arrays import Floats
from prunus.probabilities import softmax
from prunus.runtime.predictor import Predictor
from prunus.serving.refusals import Refusal
from prunus.serving.uploads.messages import Decoded


@dataclass(frozen=True)
class Job:
    """A request: its decoded images and their domain."""

    decoded: Decoded
    domain: str


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


Outcome = Ranked | Refusal
Work = Callable[[Sequence[Job]], list[Outcome]]


def ranking_with(predictor: Predictor, batch_images: int) -> Work:
    """Return a function that classifies requests of mixed domains together."""

    def work(jobs: Sequence[Job]) -> list[Outcome]:
        pairs = [(image, job.domain) for job in jobs for image in job.decoded.images]
        rankings: list[Ranking] = []
        for start in range(0, len(pairs), batch_images):
            images, domains = zip(*pairs[start : start + batch_images], strict=True)
            rankings += map(order_classes, predictor.logits(np.stack(images), list(domains)))
        rest = iter(rankings)
        return [Ranked(job.decoded.names, [next(rest) for _ in job.decoded.images]) for job in jobs]

    return work


def order_classes(logits_K: Floats) -> Ranking:
    """Sort the classes of one image as a predictor does."""
    probabilities_K = softmax(logits_K[None])[0]
    order_K = np.argsort(-probabilities_K, kind="stable")
    return Ranking(order_K.tolist(), probabilities_K[order_K].tolist())
