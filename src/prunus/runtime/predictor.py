"""Classify images with a model file: one call, the domain an argument."""

from __future__ import annotations

import reprlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import overload

import numpy as np
import numpy.typing as npt
from PIL import Image

from prunus.arrays import Bytes, Floats
from prunus.bundle.file import read_bundle
from prunus.errors import DataError
from prunus.images import read_image
from prunus.probabilities import crop_probabilities
from prunus.runtime.engine import make_engine
from prunus.runtime.whole_numbers import whole_number

ImageSource = str | Path | bytes | Bytes | Image.Image
Images = (  # a list of one kind is not a list of any kind
    list[ImageSource] | list[Path] | list[str] | list[bytes] | list[Bytes] | list[Image.Image] | tuple[ImageSource, ...]
)
Names = list[str] | tuple[str, ...]


@dataclass(frozen=True)
class Prediction:
    """One class and how probable it is."""

    label: str
    probability: float


class Predictor:
    """Serves all domains of a model file; several threads may use one.

    >>> predictor = Predictor("model.prunus")                     # doctest: +SKIP
    >>> predictor.predict("rose.jpg", domain="flowers")[0].label  # doctest: +SKIP
    'rose'
    """

    def __init__(self, path: str | Path, threads: int = 1) -> None:
        self.bundle = read_bundle(Path(path))
        self._engine = make_engine(self.bundle, threads)

    @property
    def domains(self) -> tuple[str, ...]:
        """Name the domains that the model serves."""
        return self.bundle.domains

    @property
    def engine(self) -> str:
        """Name what computes: an instruction set of the native engine, such as "avx512", or "numpy"."""
        return self._engine.name

    @overload
    def predict(self, images: ImageSource, domain: str, top: int = 5, crops: int = 1) -> list[Prediction]: ...
    @overload
    def predict(self, images: Images, domain: str | Names, top: int = 5, crops: int = 1) -> list[list[Prediction]]: ...
    def predict(
        self, images: ImageSource | Images, domain: str | Names, top: int = 5, crops: int = 1
    ) -> list[Prediction] | list[list[Prediction]]:
        """Classify one image or several; the most probable class first.

        Args:
            images: a path, the bytes of a file, an RGB array or a Pillow image, or a list of them.
            domain: of all images, or a list with the domain of each.
        """
        top = whole_number("top", top)
        if not isinstance(images, (list, tuple)):
            if not isinstance(domain, str):
                raise DataError(f"one image has one domain, a name; got {reprlib.repr(domain)}")
            return self._predict([_to_image(images)], domain, top, crops)[0]
        pictures = [_to_image(image) for image in images]
        found: list[list[Prediction]] = [[] for _ in pictures]
        for name, places in self._by_domain(domain, len(pictures)).items():
            answers = self._predict([pictures[place] for place in places], name, top, crops)
            for place, answer in zip(places, answers, strict=True):
                found[place] = answer
        return found

    @overload
    def logits(self, images: Floats, domain: str) -> Floats: ...
    @overload
    def logits(self, images: Floats, domain: Names) -> list[Floats]: ...
    def logits(self, images: Floats, domain: str | Names) -> Floats | list[Floats]:
        """Classify images that are already prepared, (N, 3, S, S) float32.

        Gives (N, classes); where every image has a domain of its own, a list of (classes,).
        """
        checked = self._checked(images)
        groups = self._by_domain(domain, len(checked))
        if isinstance(domain, str):
            return self._logits(checked, domain)
        found: list[Floats] = [np.zeros(0, np.float32)] * len(checked)
        for name, places in groups.items():
            for place, row in zip(places, self._logits(checked[places], name), strict=True):
                found[place] = row
        return found

    def _by_domain(self, domain: str | Names, count: int) -> dict[str, list[int]]:
        """List the places of every domain's images."""
        given = [domain] if isinstance(domain, str) else domain
        if not isinstance(given, (list, tuple)) or not all(isinstance(name, str) for name in given):
            raise DataError(
                f"a domain is a name, or a list with a name for each image; got {reprlib.repr(domain)}; "
                f"choose from {', '.join(self.domains)}"
            )
        for name in dict.fromkeys(given):
            self.bundle.check_domain(name)
        names = [domain] * count if isinstance(domain, str) else given
        if len(names) != count:
            raise DataError(f"{count} images need one domain, or {count}; got {len(names)}")
        groups: dict[str, list[int]] = {}
        for place, name in enumerate(names):
            groups.setdefault(name, []).append(place)
        return groups

    def _logits(self, images: Floats, domain: str) -> Floats:
        found = self._engine.logits(images, domain)
        if not np.isfinite(found).all():  # few numbers, beside those that were computed for them
            most = float(np.abs(images).max())
            raise DataError(
                f"the logits of domain {domain!r} are not finite: the images hold numbers as large as {most:.3g}; "
                "prepare them as predict does, with numbers near 1"
            )
        return found

    def _predict(self, images: Sequence[Image.Image], domain: str, top: int, crops: int) -> list[list[Prediction]]:
        self.bundle.check_domain(domain)
        entry = self.bundle.manifest.domains[domain]
        stored = np.stack([entry.preprocess.store(image) for image in images])
        probabilities = crop_probabilities(lambda x: self.logits(x, domain), stored, entry.preprocess, crops)
        return [
            [Prediction(entry.classes[k], float(row[k])) for k in np.argsort(-row, kind="stable")[:top]]
            for row in probabilities
        ]

    def _checked(self, images: npt.NDArray[np.generic]) -> Floats:
        size = self.bundle.manifest.image_size
        if not isinstance(images, np.ndarray) or images.dtype != np.float32:
            kind = images.dtype if isinstance(images, np.ndarray) else type(images).__name__
            raise DataError(
                f"prepared images are an array of float32, got {kind}; convert them with np.asarray(images, np.float32)"
            )
        if images.ndim != 4 or images.shape[1:] != (3, size, size):
            raise DataError(f"the model takes images of the shape (N, 3, {size}, {size}), got {images.shape}")
        return np.ascontiguousarray(images, dtype=np.float32)


def _to_image(image: ImageSource) -> Image.Image:
    if isinstance(image, np.ndarray):
        if image.dtype != np.uint8 or (image.ndim != 2 and image.shape[2:] != (3,)) or image.size == 0:
            raise DataError(f"an image array is (height, width, 3) of uint8, got {image.shape} of {image.dtype}")
        return read_image(Image.fromarray(image))
    if not isinstance(image, (str, Path, bytes, Image.Image)):
        raise DataError(
            "an image is a path, the bytes of a file, an array of (height, width, 3) bytes or a Pillow image; "
            f"got {reprlib.repr(image)}"
        )
    return read_image(Path(image) if isinstance(image, str) else image)
