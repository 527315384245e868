"""Decode and classify the requests of a batch, outside the event loop.

Legend: K = classes.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from prunus.arrays import Floats
from prunus.probabilities import softmax
from prunus.runtime.predictor import Predictor
from prunus.serving.refusals import Refusal
from prunus.serving.uploads.decoding import Decoded, NotSmall


@dataclass(frozen=True)
class Job:
    """A request: a function that decodes its images, and their domain."""

    decode: Callable[[], Decoded]
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


Outcome = Ranked | Refusal | NotSmall
Work = Callable[[Sequence[Job]], list[Outcome]]


def ranking_with(predictor: Predictor, batch_images: int) -> Work:
    """Return a function that decodes and classifies requests of mixed domains together."""

    def work(jobs: Sequence[Job]) -> list[Outcome]:
        decoded = [_decoded(job) for job in jobs]
        pairs = [
            (image, job.domain)
            for job, result in zip(jobs, decoded, strict=True)
            if isinstance(result, Decoded)
            for image in result.images
        ]
        rankings: list[Ranking] = []
        for start in range(0, len(pairs), batch_images):
            images, domains = zip(*pairs[start : start + batch_images], strict=True)
            rankings += map(order_classes, predictor.logits(np.stack(images), list(domains)))
        rest = iter(rankings)
        return [
            Ranked(result.names, [next(rest) for _ in result.images]) if isinstance(result, Decoded) else result
            for result in decoded
        ]

    return work


def _decoded(job: Job) -> Decoded | Refusal | NotSmall:
    try:
        return job.decode()
    except (Refusal, NotSmall) as reason:  # concerns this request only
        # its frames would keep the bytes of the request in memory
        reason.__traceback__ = reason.__context__ = reason.__cause__ = None
        return reason


def order_classes(logits_K: Floats) -> Ranking:
    """Sort the classes of one image as a predictor does."""
    probabilities_K = softmax(logits_K[None])[0]
    order_K = np.argsort(-probabilities_K, kind="stable")
    return Ranking(order_K.tolist(), probabilities_K[order_K].tolist())
