"""Compare an 8-bit bundle with the bundle of floats that it was made from, on held-out images.

Legend: N = images, K = classes.
"""

from collections.abc import Mapping
from statistics import mean

import numpy as np

from prunus.arrays import Floats
from prunus.bundle.bundle import Bundle
from prunus.bundle.eight_bits.bounds import Loss, Losses
from prunus.quantizing.images import Drawn, Loading, Pictures
from prunus.runtime.engine import Engine, make_engine

BATCH = 64
FEW = 16  # images of a domain that are enough to compare logits


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
        found: dict[str, Loss] = {}
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
