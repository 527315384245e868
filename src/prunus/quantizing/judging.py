"""Compare an 8-bit bundle with the bundle of floats that it was made from, on held-out images.

Legend: N = images, K = classes.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from statistics import mean

import numpy as np

from prunus.arrays import Floats
from prunus.bundle.bundle import Bundle
from prunus.quantizing.images import Drawn, Loading, Pictures
from prunus.runtime.engine import Engine, make_engine

BATCH = 64
FEW = 16  # images of a domain that are enough to compare logits
MOST_MEAN_LOSS, MOST_LOSS = 0.003, 0.01  # of accuracy: over all domains, and of any of them
MOST_TURNED = 0.05  # of the images of a domain: what 512 lose then has a standard error of 26**0.5 images, a point
ROUNDING = 1e-9
ONE_IMAGE = 1 + 1e-6
FEW_TURNED = 2  # images, that prove nothing: one each way


@dataclass(frozen=True)
class Loss:
    """The accuracy of one domain on its held-out images, in floats and in 8 bits.

    Args:
        turned: images that are right in only one of the two. What is lost has the standard error √turned, in images:
            with many of them, a small loss is luck that other images do not have.
    """

    images: int
    floats: float
    coded: float
    turned: int = 0

    @property
    def lost(self) -> float:
        """Return by how much the accuracy is lower in 8 bits."""
        return self.floats - self.coded

    @property
    def is_steady(self) -> bool:
        """Return whether so few images turned that others lose about as much."""
        return self.turned <= max(FEW_TURNED, MOST_TURNED * self.images + ROUNDING)


Losses = dict[str, Loss]


def is_within(losses: Losses) -> bool:
    """Return whether 8 bits lose little enough, over all domains and in each of them, and not only by luck.

    One image that is lost proves nothing, however few there are.
    """
    lost_images = sum(loss.lost * loss.images for loss in losses.values())
    if not losses or lost_images <= ONE_IMAGE:
        mean_is_kept = True
    else:
        mean_is_kept = mean(loss.lost for loss in losses.values()) <= MOST_MEAN_LOSS + ROUNDING
    return mean_is_kept and all(
        loss.is_steady and (loss.lost <= MOST_LOSS + ROUNDING or loss.lost * loss.images <= ONE_IMAGE)
        for loss in losses.values()
    )


def loses_no_more(losses: Losses, others: Losses) -> bool:
    """Return whether no domain loses more than others of the same images say, and not only by luck."""
    return all(
        loss.coded >= others[domain].coded - ROUNDING and (loss.is_steady or loss.turned <= others[domain].turned)
        for domain, loss in losses.items()
    )


class Judge:
    """Held-out images of every domain, and the logits that floats give them.

    Args:
        watch: called with the domain, the images classified so far and all of them.
    """

    def __init__(self, floats: Bundle, images: Mapping[str, Drawn], threads: int, watch: Loading) -> None:
        self.images = {domain: drawn for domain, drawn in images.items() if len(drawn.held_out)}
        self._threads = threads
        self._watch = watch
        engine = make_engine(floats, threads)
        self.logits = {domain: self._classify(engine, domain, drawn.held_out) for domain, drawn in self.images.items()}

    def losses(self, bundle: Bundle) -> Losses:
        """Measure the accuracy of an 8-bit bundle on all held-out images."""
        engine = make_engine(bundle, self._threads)
        found: Losses = {}
        for domain, drawn in self.images.items():
            logits = self._classify(engine, domain, drawn.held_out)
            floats, coded = (answers.argmax(1) == drawn.labels for answers in (self.logits[domain], logits))
            turned = int((floats != coded).sum())
            found[domain] = Loss(len(drawn.labels), float(floats.mean()), float(coded.mean()), turned)
        return found

    def distance(self, bundle: Bundle) -> float:
        """Return how far the logits of an 8-bit bundle are from those of floats, on a few images of each domain."""
        engine = make_engine(bundle, self._threads)
        distances = []
        for domain, drawn in self.images.items():
            few = self.logits[domain][:FEW]
            errors = engine.logits(next(drawn.held_out.prepared(FEW)), domain) - few
            distances.append(float(np.square(errors).mean() / max(float(few.var()), 1e-12)))
        return mean(distances)

    def _classify(self, engine: Engine, domain: str, images: Pictures) -> Floats:
        parts: list[Floats] = []
        for batch in images.prepared(BATCH):
            parts.append(engine.logits(batch, domain))
            self._watch(domain, sum(map(len, parts)), len(images))
        return np.concatenate(parts)
