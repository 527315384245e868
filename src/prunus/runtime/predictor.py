"""Classify images with a model file: one call, the domain an argument."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from PIL import Image

from prunus.bundle.file import read_bundle
from prunus.errors import DataError
from prunus.images import Bytes, Floats, read_image
from prunus.probabilities import crop_probabilities
from prunus.runtime.engine import make_engine

ImageSource = str | Path | bytes | Bytes | Image.Image


@dataclass(frozen=True)
class Prediction:
    """One class and how probable it is."""

    label: str
    probability: float


class Predictor:
    """Serves all domains of a model file.

    >>> predictor = Predictor("model.prunus")                     # doctest: +SKIP
    >>> predictor.predict("rose.jpg", domain="flowers")[0].label  # doctest: +SKIP
    'rose'
    """

    def __init__(self, path: str | Path, device: str = "cpu") -> None:
        self.bundle = read_bundle(Path(path))
        self._engine = make_engine(self.bundle, device)

    @property
    def domains(self) -> tuple[str, ...]:
        """Name the domains that the model serves."""
        return self.bundle.domains

    def predict(self, image: ImageSource, domain: str, top: int = 5, crops: int = 1) -> list[Prediction]:
        """Classify one image (a path, its bytes, an RGB array or a Pillow image); the most probable class first."""
        return self.predict_many([image], domain, top, crops)[0]

    def predict_many(
        self, images: Sequence[ImageSource], domain: str, top: int = 5, crops: int = 1
    ) -> list[list[Prediction]]:
        """Classify several images of one domain in one pass."""
        self.bundle.check_domain(domain)
        entry = self.bundle.manifest.domains[domain]
        if not images:
            return []
        stored = np.stack([entry.preprocess.store(_to_image(image)) for image in images])
        probabilities = crop_probabilities(lambda x: self.logits(x, domain), stored, entry.preprocess, crops)
        return [
            [Prediction(entry.classes[k], float(row[k])) for k in np.argsort(-row, kind="stable")[:top]]
            for row in probabilities
        ]

    def logits(self, images: Floats, domain: str) -> Floats:
        """Classify images that are already prepared, (N, 3, S, S) float32: (N, classes)."""
        self.bundle.check_domain(domain)
        return self._engine.logits(images, domain)


def _to_image(image: ImageSource) -> Image.Image:
    if isinstance(image, np.ndarray):
        if image.dtype != np.uint8 or (image.ndim != 2 and image.shape[2:] != (3,)):
            raise DataError(f"an image array is (height, width, 3) of uint8, got {image.shape} of {image.dtype}")
        return read_image(Image.fromarray(image))
    return read_image(Path(image) if isinstance(image, str) else image)
