"""Classify images with a model file; the domain is an argument."""

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
Images = (  # lists are invariant, so each kind is listed
    list[ImageSource] | list[Path] | list[str] | list[bytes] | list[Bytes] | list[Image.Image] | tuple[ImageSource, ...]
)
Names = list[str] | tuple[str, ...]


@dataclass(frozen=True)
class Prediction:
    """A class and its probability."""

    label: str
    probability: float


class Predictor:
    """A loaded model file, for all its domains; several threads may share one.

    >>> predictor = Predictor("model.prunus")                     # doctest: +SKIP
    >>> predictor.predict("rose.jpg", domain="flowers")[0].label  # doctest: +SKIP
    'rose'
    """

    def __init__(self, path: str | Path, threads: int = 1) -> None:
        self.bundle = read_bundle(Path(path))
        self._engine = make_engine(self.bundle, threads)

    @property
    def domains(self) -> tuple[str, ...]:
        """Return the names of the model's domains."""
        return self.bundle.domains

    @property
    def engine(self) -> str:
        """Return the name of the engine: an instruction set of the native one, such as "avx512", or "numpy"."""
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
            images: a path, the bytes of an image file, an RGB array or a Pillow image, or a list of these.
            domain: the domain of all images, or a list with one domain per image.
        """
        top = whole_number("top", top)
        if not isinstance(images, (list, tuple)):
            if not isinstance(domain, str):
                raise DataError(f"one image takes one domain name, got {reprlib.repr(domain)}")
            return self._predict([_to_image(images)], domain, top, crops)[0]
        pictures = [_to_image(image) for image in images]
        predictions: list[list[Prediction]] = [[] for _ in pictures]
        for name, indices in self._by_domain(domain, len(pictures)).items():
            answers = self._predict([pictures[index] for index in indices], name, top, crops)
            for index, answer in zip(indices, answers, strict=True):
                predictions[index] = answer
        return predictions

    @overload
    def logits(self, images: Floats, domain: str) -> Floats: ...
    @overload
    def logits(self, images: Floats, domain: Names) -> list[Floats]: ...
    def logits(self, images: Floats, domain: str | Names) -> Floats | list[Floats]:
        """Classify prepared images, (N, 3, S, S) float32.

        Returns (N, classes), or a list of (classes,) if `domain` is a list.
        """
        checked = self._checked(images)
        groups = self._by_domain(domain, len(checked))
        if isinstance(domain, str):
            return self._logits(checked, domain)
        rows: list[Floats] = [np.zeros(0, np.float32)] * len(checked)
        for name, indices in groups.items():
            for index, row in zip(indices, self._logits(checked[indices], name), strict=True):
                rows[index] = row
        return rows

    def _by_domain(self, domain: str | Names, count: int) -> dict[str, list[int]]:
        """Return the indices of the images of each domain."""
        names = [domain] if isinstance(domain, str) else domain
        if not isinstance(names, (list, tuple)) or not all(isinstance(name, str) for name in names):
            raise DataError(
                f"domain must be a name, or a list with one name per image; got {reprlib.repr(domain)}; "
                f"known: {', '.join(self.domains)}"
            )
        for name in dict.fromkeys(names):
            self.bundle.check_domain(name)
        if isinstance(domain, str):
            names = [domain] * count
        if len(names) != count:
            raise DataError(f"{count} images need one domain or a list of {count}; got {len(names)} domains")
        groups: dict[str, list[int]] = {}
        for index, name in enumerate(names):
            groups.setdefault(name, []).append(index)
        return groups

    def _logits(self, images: Floats, domain: str) -> Floats:
        logits = self._engine.logits(images, domain)
        if not np.isfinite(logits).all():
            largest = float(np.abs(images).max())
            raise DataError(
                f"the logits of domain {domain!r} are not finite: "
                f"the images contain numbers as large as {largest:.3g}; normalize them as predict does"
            )
        return logits

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
                f"prepared images must be float32, got {kind}; convert them with np.asarray(images, np.float32)"
            )
        if images.ndim != 4 or images.shape[1:] != (3, size, size):
            raise DataError(f"the model takes images of shape (N, 3, {size}, {size}), got {images.shape}")
        return np.ascontiguousarray(images, dtype=np.float32)


def _to_image(image: ImageSource) -> Image.Image:
    if isinstance(image, np.ndarray):
        if image.dtype != np.uint8 or (image.ndim != 2 and image.shape[2:] != (3,)) or image.size == 0:
            raise DataError(f"an image array must be (height, width, 3) uint8, got {image.shape} {image.dtype}")
        return read_image(Image.fromarray(image))
    if not isinstance(image, (str, Path, bytes, Image.Image)):
        raise DataError(
            "an image must be a path, the bytes of an image file, a (height, width, 3) uint8 array or a Pillow image; "
            f"got {reprlib.repr(image)}"
        )
    return read_image(Path(image) if isinstance(image, str) else image)
