"""Decode a split once into one array of bytes; every later epoch only indexes it."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from prunus.data.domains import Domain, Item
from prunus.errors import DataError
from prunus.images import Bytes, Preprocess, read_image


@dataclass(frozen=True)
class ImageSet:
    """Decoded images of one split: (N, 3, R, R) bytes and N labels."""

    images: Bytes
    labels: npt.NDArray[np.int64]
    skipped: tuple[str, ...] = ()

    def __len__(self) -> int:
        return len(self.labels)

    def fingerprint(self) -> str:
        """Hash pixels and labels, so that a resumed run notices other data."""
        digest = hashlib.sha256(self.labels.tobytes())
        digest.update(np.ascontiguousarray(self.images).data)
        return digest.hexdigest()


def load_images(domain: Domain, split: str, preprocess: Preprocess, skip_bad: bool = False) -> ImageSet:
    """Decode and resize all images of a split; a bad one is an error unless it may be skipped."""
    items = domain.split(split)
    if not items:
        raise DataError(f"domain {domain.name!r} ({domain.source.path}) has no {split} images")
    with ThreadPoolExecutor(max_workers=os.cpu_count()) as pool:  # Pillow decodes outside the interpreter's lock
        decoded = list(pool.map(lambda item: _decode(domain, item, preprocess), items))
    bad = [result for result in decoded if isinstance(result, DataError)]
    if bad and not skip_bad:
        others = f" (and {len(bad) - 1} more)" if len(bad) > 1 else ""
        raise DataError(f"{bad[0]}{others}; mend or remove it, or leave such images out with --skip-bad-images")
    good = [(image, item) for image, item in zip(decoded, items, strict=True) if not isinstance(image, DataError)]
    _check_classes_survive(domain, split, [item for _, item in good])
    images = np.stack([image for image, _ in good])
    labels = np.array([item.label for _, item in good], dtype=np.int64)
    return ImageSet(images, labels, tuple(str(error) for error in bad))


def _decode(domain: Domain, item: Item, preprocess: Preprocess) -> Bytes | DataError:
    try:
        content = domain.source.read(item.file)
        return preprocess.store(read_image(content, f"{item.file} of domain {domain.name!r} ({domain.source.path})"))
    except DataError as error:
        return error


def _check_classes_survive(domain: Domain, split: str, items: Sequence[Item]) -> None:
    if not items:
        raise DataError(f"domain {domain.name!r}: every image of {split} is bad; nothing is left to use")
    lost = {item.label for item in domain.split(split)} - {item.label for item in items}
    if lost and split.startswith("train"):
        raise DataError(f"domain {domain.name!r}: every {split} image of class {domain.classes[min(lost)]!r} is bad")
