"""Decode a split once into one array of bytes that every epoch indexes."""

import hashlib
import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import numpy.typing as npt
from pydantic import BaseModel

from prunus.arrays import Bytes
from prunus.data.cache import cache_key, cached_model, cached_rows
from prunus.data.domains import Domain, Item
from prunus.errors import DataError
from prunus.images import Preprocess, read_image

CHUNK = 1024  # images decoded or summed at a time
REPAIR = "fix or remove it"  # what to do about an unreadable image
Loading = Callable[[str, int, int], None]  # domain, images done, total
Colour = tuple[float, float, float]


def _silent(domain: str, done: int, total: int) -> None:
    pass


class _Statistics(BaseModel):
    """Mean and standard deviation of each colour, in [0, 1]."""

    mean: Colour
    std: Colour


@dataclass(frozen=True)
class ImageSet:
    """Decoded images of one split: (N, 3, R, R) bytes, N labels, and the ids that a benchmark has for them.

    Args:
        skipped: a reason for each image that could not be read.
        cache: the entry of the cache that holds the images, if one does.
        was_damaged: whether that entry was damaged, so that the images were decoded again.
        files: names of the image files within the domain.
    """

    images: Bytes
    labels: npt.NDArray[np.int64]
    skipped: tuple[str, ...] = ()
    image_ids: tuple[int, ...] = ()
    cache: Path | None = None
    was_damaged: bool = False
    files: tuple[str, ...] = ()

    def __len__(self) -> int:
        return len(self.labels)

    def fingerprint(self) -> str:
        """Hash pixels and labels: a resumed run must see the same data."""
        digest = hashlib.sha256(self.labels.tobytes())
        for start in range(0, len(self), CHUNK):
            digest.update(np.ascontiguousarray(self.images[start : start + CHUNK]).data)
        return digest.hexdigest()

    def statistics(self) -> tuple[Colour, Colour]:
        """Return the mean and standard deviation of each colour, in [0, 1]; they are cached beside the pixels."""
        statistics = cached_model(self.cache, "statistics.json", _Statistics, self._statistics)
        return statistics.mean, statistics.std

    def _statistics(self) -> _Statistics:
        total, squares = np.zeros(3), np.zeros(3)
        for start in range(0, len(self), CHUNK):
            part = self.images[start : start + CHUNK].astype(np.float64) / 255
            total += part.sum((0, 2, 3))
            squares += (part**2).sum((0, 2, 3))
        count = len(self) * self.images.shape[2] * self.images.shape[3]
        mean = total / count
        std = np.sqrt(np.maximum(squares / count - mean**2, 1e-8))  # one flat colour must not divide by 0
        return _Statistics(mean=mean.round(6).tolist(), std=std.round(6).tolist())


def load_images(  # noqa: PLR0913  # all but three have defaults
    domain: Domain,
    split: str,
    preprocess: Preprocess,
    skip_bad: bool = False,
    cache: Path | None = None,
    loading: Loading = _silent,
    *,
    remedy: str = REPAIR,
) -> ImageSet:
    """Decode and resize all images of a split, or map them from the cache; bad ones are errors or skipped.

    Args:
        remedy: what the caller's user can do about a bad image.
    """
    items = domain.split(split)
    if not items:
        raise DataError(f"domain {domain.name!r} ({domain.source.path}) has no {split} images")
    shape = (len(items), 3, preprocess.resize, preprocess.resize)

    def fill(rows: Bytes) -> dict[int, str]:
        return _fill(rows, domain, items, preprocess, loading)

    if cache is None:
        rows = np.empty(shape, dtype=np.uint8)
        return _select(domain, split, rows, _skipped(fill(rows), skip_bad, remedy), None)
    key = cache_key(domain.source, [item.file for item in items], preprocess)
    cached = cached_rows(cache, key, shape, fill)
    images = _select(domain, split, cached.rows, _skipped(cached.bad, skip_bad, remedy), cache / key)
    return replace(images, was_damaged=cached.was_damaged)


def damaged_entry(domain: str, split: str) -> str:
    """Return what to tell a user about images that were decoded again."""
    return f"the {split} images of domain {domain!r} in the cache were damaged and have been decoded again"


def _fill(
    rows: Bytes, domain: Domain, items: Sequence[Item], preprocess: Preprocess, loading: Loading
) -> dict[int, str]:
    def decode(index: int) -> str | None:
        file = items[index].file
        name = f"{file} of domain {domain.name!r} ({domain.source.path})"
        try:
            rows[index] = preprocess.store(read_image(domain.source.read(file), name))
        except DataError as error:
            rows[index] = 0
            return str(error)
        return None

    bad: dict[int, str] = {}
    with ThreadPoolExecutor(max_workers=os.cpu_count()) as pool:  # Pillow decodes without the interpreter's lock
        for start in range(0, len(items), CHUNK):
            chunk = range(start, min(start + CHUNK, len(items)))
            for index, reason in zip(chunk, pool.map(decode, chunk), strict=True):
                if reason:
                    bad[index] = reason
                loading(domain.name, index + 1, len(items))
    return bad


def _skipped(bad: dict[int, str], skip_bad: bool, remedy: str) -> dict[int, str]:
    """Return the bad images if they may be skipped."""
    if bad and not skip_bad:
        first = next(iter(bad.values()))
        others = f" (and {len(bad) - 1} more)" if len(bad) > 1 else ""
        raise DataError(f"{first}{others}; {remedy}")
    return bad


def _select(domain: Domain, split: str, rows: Bytes, bad: dict[int, str], entry: Path | None) -> ImageSet:
    items = domain.split(split)
    good = [index for index in range(len(items)) if index not in bad]
    _check_classes_survive(domain, split, [items[index] for index in good])
    labels = np.array([items[index].label for index in good], dtype=np.int64)
    ids = tuple(items[index].image_id for index in good)
    # indexing copies: without bad rows, mapped rows stay mapped
    files = tuple(items[index].file for index in good)
    return ImageSet(rows[good] if bad else rows, labels, tuple(bad.values()), ids, None if bad else entry, files=files)


def _check_classes_survive(domain: Domain, split: str, items: Sequence[Item]) -> None:
    if not items:
        raise DataError(f"domain {domain.name!r}: no image of {split} can be read")
    lost = {item.label for item in domain.split(split)} - {item.label for item in items}
    if lost and split.startswith("train"):
        raise DataError(f"domain {domain.name!r}: no {split} image of class {domain.classes[min(lost)]!r} can be read")
