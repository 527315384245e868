"""Classify images with a model file; the domain is an argument."""

import reprlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import overload

import numpy as np
import numpy.typing as npt
from PIL import Image
from typing_extensions import override

from prunus.amounts import plural
from prunus.arrays import Floats
from prunus.bundle.file import read_bundle
from prunus.errors import DataError
from prunus.files import as_path
from prunus.names import shown
from prunus.probabilities import crop_probabilities
from prunus.runtime.engine import make_engine
from prunus.runtime.inputs import ImageSource, to_images
from prunus.runtime.whole_numbers import whole_number

SHOWN = 5  # domains in a repr
Names = list[str] | tuple[str, ...]


@dataclass(frozen=True)
class Prediction:
    """A class and its probability."""

    label: str
    probability: float


@dataclass(frozen=True)
class Result(Sequence[Prediction]):
    """The predictions for one image, the most probable first; a sequence of them."""

    domain: str
    predictions: tuple[Prediction, ...]

    @property
    def label(self) -> str:
        """Return the most probable class."""
        return self.predictions[0].label

    @property
    def probability(self) -> float:
        """Return the probability of the most probable class."""
        return self.predictions[0].probability

    @override
    def __len__(self) -> int:
        return len(self.predictions)

    @overload
    def __getitem__(self, index: int) -> Prediction: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[Prediction]: ...
    @override
    def __getitem__(self, index: int | slice) -> Prediction | Sequence[Prediction]:
        return self.predictions[index]


class Predictor:
    """A loaded model file, for all its domains; several threads may share one.

    >>> predictor = Predictor("model.prunus")                     # doctest: +SKIP
    >>> predictor.predict("rose.jpg", domain="flowers")[0].label  # doctest: +SKIP
    'rose'
    """

    def __init__(self, path: str | Path, threads: int = 1) -> None:
        self.path = as_path(path, "a model file")
        self.bundle = read_bundle(self.path)
        self._engine = make_engine(self.bundle, threads)

    @override
    def __repr__(self) -> str:
        counts = [f"{domain}: {len(classes)} classes" for domain, classes in self.classes.items()]
        more = [f"and {len(counts) - SHOWN} more domains"] if len(counts) > SHOWN else []
        described = ", ".join([*counts[:SHOWN], *more])
        return shown(f"<Predictor {str(self.path)!r} ({described}; {self.image_size} px, engine {self.engine})>")

    @property
    def domains(self) -> tuple[str, ...]:
        """Return the names of the model's domains."""
        return self.bundle.domains

    @property
    def classes(self) -> dict[str, tuple[str, ...]]:
        """Return the names of each domain's classes, in the order of the logits."""
        return {domain: tuple(entry.classes) for domain, entry in self.bundle.manifest.domains.items()}

    @property
    def image_size(self) -> int:
        """Return the side of the images that the network takes, in pixels."""
        return self.bundle.manifest.image_size

    @property
    def engine(self) -> str:
        """Return the name of the engine: an instruction set of the native one, such as "avx512", or "numpy"."""
        return self._engine.name

    def __call__(
        self,
        images: ImageSource | Sequence[ImageSource],
        domain: str | Names | None = None,
        top: int = 5,
        crops: int = 1,
    ) -> list[Result]:
        """Classify images, as `predict` does."""
        return self.predict(images, domain, top, crops)

    def predict(
        self,
        images: ImageSource | Sequence[ImageSource],
        domain: str | Names | None = None,
        top: int = 5,
        crops: int = 1,
    ) -> list[Result]:
        """Classify one image or several; returns one result per image, also for a single one.

        An image is a path, the bytes of an image file, a file opened with "rb", a Pillow image, an array or a torch
        tensor. Arrays and tensors are (H, W), (H, W, 3) or (3, H, W), of uint8 or of floats from 0 to 1. If both ends
        of a shape are 3, arrays are taken as (H, W, 3) and tensors as (3, H, W).

        Args:
            images: an image, a list of images, or an array or tensor with a fourth axis in front, for several images.
            domain: the domain of all images, or a list with one domain per image; a model of one domain needs none.
            top: the number of classes to return, the most probable first.
            crops: average over 1, 5 or 10 crops of each image.
        """
        top = whole_number("top", top)
        domain = self._only_domain() if domain is None else domain
        pictures, are_many = to_images(images)
        if not are_many and not isinstance(domain, str):
            raise DataError(f"one image takes one domain name, got {reprlib.repr(domain)}")
        results: list[Result | None] = [None] * len(pictures)
        for name, indices in self._by_domain(domain, len(pictures)).items():
            answers = self._predict([pictures[index] for index in indices], name, top, crops)
            for index, answer in zip(indices, answers, strict=True):
                results[index] = answer
        return [result for result in results if result is not None]

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

    def _only_domain(self) -> str:
        """Return the domain of a model that has no other."""
        if len(self.domains) > 1:
            raise DataError(
                "domain must be a name, because the model has several domains; got none; "
                f"known: {', '.join(self.domains)}"
            )
        return self.domains[0]

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
            raise DataError(
                f"{plural(count, 'image needs', 'images need')} one domain or a list of {count}; "
                f"got {plural(len(names), 'domain')}"
            )
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

    def _predict(self, images: Sequence[Image.Image], domain: str, top: int, crops: int) -> list[Result]:
        entry = self.bundle.manifest.domains[domain]
        stored = np.stack([entry.preprocess.store(image) for image in images])
        probabilities = crop_probabilities(lambda x: self.logits(x, domain), stored, entry.preprocess, crops)
        return [
            Result(
                domain,
                tuple(Prediction(entry.classes[k], float(row[k])) for k in np.argsort(-row, kind="stable")[:top]),
            )
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
