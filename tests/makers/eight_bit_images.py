"""Random images of every domain of a bundle, with the labels that the bundle itself gives them."""

from __future__ import annotations

import numpy as np

from prunus.bundle.bundle import Bundle
from prunus.quantizing.images import Drawn, Pictures
from prunus.runtime.numpy_engine import NumpyEngine


def drawn_images(bundle: Bundle, calibration: int = 16, held_out: int = 50, seed: int = 0) -> dict[str, Drawn]:
    """Draw random pictures; in floats, a bundle classifies all held-out ones as labelled."""
    rng = np.random.default_rng(seed)
    engine = NumpyEngine(bundle)
    size = bundle.manifest.image_size
    images = {}
    for domain, entry in bundle.manifest.domains.items():
        pictures = [
            Pictures(rng.integers(0, 256, (count, 3, size, size)).astype(np.uint8), entry.preprocess)
            for count in (calibration, held_out)
        ]
        logits = engine.logits(next(pictures[1].prepared(max(held_out, 1))), domain) if held_out else np.zeros((0, 1))
        images[domain] = Drawn(pictures[0], pictures[1], logits.argmax(1))
    return images
