"""A domain of images that a program passes: a torch dataset, or arrays with labels."""

import io
import math
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from hashlib import blake2b
from typing import Any, Protocol, TypeAlias, cast, runtime_checkable

import numpy as np

from prunus.data.folders.structure import is_leftover
from prunus.data.own.pictures import as_picture
from prunus.errors import DataError
from prunus.images import read_image
from prunus.names import name_problem

ENDING = ".ppm"  # images are handed on in this format, which keeps every pixel
DIGEST_BYTES = 16
READ_TWICE = 16  # images of a split that are read again, to notice random transforms


@runtime_checkable
class PairDataset(Protocol):
    """A map-style torch dataset, or a list: pairs of an image and a label by number."""

    def __len__(self) -> int: ...
    def __getitem__(self, index: int, /) -> Any: ...  # noqa: ANN401  # what a dataset returns is checked


# a dataset of pairs, or images and their labels
Split: TypeAlias = PairDataset | tuple[Sequence[object], Sequence[object]]


@dataclass(frozen=True)
class Picture:
    """One image of a split: its number, its class, and a hash of its pixels."""

    split: str
    index: int
    label: str
    digest: bytes

    @property
    def file(self) -> str:
        """Return its name in its class, as if it were a file."""
        return f"{self.index:08d}{ENDING}"


@dataclass(frozen=True, eq=False, repr=False)
class OwnDomain:
    """The images of one domain from Python, for the argument `domains` of `train` and other functions.

    A split is a map-style torch dataset of (image, label), or a pair (images, labels). An image is a PIL image, a uint8
    array (height, width, colours), a uint8 tensor (colours, height, width), or either with numbers from 0 to 1. It must
    not be augmented or normalized, which Prunus does itself. A label is a number in `classes`, or the name of a class.

    Args:
        train: without any other split, a share of it is held out for the test (`test_share` of the domain).
        validation: if missing, a share of `train` is held out (`training.validation_share`).
        test: if missing while there is a `validation`, the domain can be trained but not evaluated.
        classes: the names of the classes, in the order of the labels (default: the `classes` of the dataset).
    """

    train: Split
    validation: Split | None = None
    test: Split | None = None
    classes: Sequence[str] | None = None
    _reading: threading.Lock = field(default_factory=threading.Lock, init=False)

    @cached_property
    def splits(self) -> dict[str, Split]:
        """Return the splits that were passed, by name."""
        every = {"train": self.train, "validation": self.validation, "test": self.test}
        return {name: split for name, split in every.items() if split is not None}

    @cached_property
    def pictures(self) -> tuple[Picture, ...]:
        """Look at every image of every split once."""
        return tuple(picture for name, split in self.splits.items() for picture in self._look(name, split))

    def read(self, split: str, index: int) -> bytes:
        """Return an image as the content of a file."""
        return self._read(self.splits[split], split, index)[0]

    def _look(self, name: str, split: Split) -> list[Picture]:
        names = _class_names(self.classes, split)
        pictures = []
        for index in range(_length(split, name)):
            content, label = self._read(split, name, index)
            pictures.append(Picture(name, index, _class_of(label, names, f"{name}[{index}]"), _digest(content)))
        for picture in pictures[:: math.ceil(len(pictures) / READ_TWICE) or 1]:
            if _digest(self._read(split, name, picture.index)[0]) != picture.digest:
                raise DataError(
                    f"{name}[{picture.index}] is another image each time it is read; remove random transforms from the "
                    "dataset and pass them as transform=... of prunus.train instead"
                )
        return pictures

    def _read(self, split: Split, name: str, index: int) -> tuple[bytes, object]:
        where = f"{name}[{index}]"
        try:
            with self._reading:  # datasets are rarely made for several threads
                image, label = _pair(split, index)
        except Exception as error:  # the dataset is the user's
            raise DataError(f"{where} is not a pair of an image and a label ({_reason(error)})") from error
        picture = read_image(as_picture(image, where), where)
        content = io.BytesIO()
        picture.save(content, "PPM")
        return content.getvalue(), label


def as_own_domain(value: object, name: str) -> OwnDomain:
    """Return an own domain, or make one of a dataset that holds all its images."""
    if isinstance(value, OwnDomain):
        return value
    if isinstance(value, (str, bytes)) or not isinstance(value, PairDataset):
        raise DataError(
            f"domain {name!r} must be a torch dataset with a length, a pair (images, labels) or a prunus.OwnDomain, "
            f"got {type(value).__name__}; folders are named in the recipe"
        )
    return OwnDomain(cast("Split", value))


def _digest(content: bytes) -> bytes:
    return blake2b(content, digest_size=DIGEST_BYTES).digest()


def _pair(split: Split, index: int) -> tuple[object, object]:
    if isinstance(split, tuple):
        return split[0][index], split[1][index]
    pair = split[index]
    if isinstance(pair, Mapping):  # it would be unpacked into its keys
        raise TypeError(f"it is a dictionary with the keys {', '.join(map(str, pair))}")
    image, label = pair
    return image, label


def _length(split: Split, name: str) -> int:
    if not isinstance(split, tuple):
        return len(split)
    if len(split) != 2 or len(split[0]) != len(split[1]):
        lengths = " and ".join(str(len(part)) for part in split)
        raise DataError(f"{name} must be a pair of images and labels of the same number, got {lengths}")
    return len(split[0])


def _class_names(wanted: Sequence[str] | None, split: Split) -> list[str] | None:
    """Return the names of classes by number; None if labels are the names themselves."""
    dataset: object = split
    while wanted is None and dataset is not None:
        wanted = getattr(dataset, "classes", None)
        dataset = getattr(dataset, "dataset", None)  # of a Subset
    if wanted is None:
        return None
    names = [str(name) for name in wanted]
    if twice := sorted({name for name in names if names.count(name) > 1}):
        raise DataError(f"two classes are called {twice[0]!r}; rename one of them with the argument classes")
    return names


def _class_of(label: object, names: list[str] | None, where: str) -> str:
    number = _as_number(label)
    if number is None and not isinstance(label, str):
        raise DataError(f"the label of {where} must be a number or the name of a class, got {type(label).__name__}")
    if isinstance(label, str):
        name = label
        if names is not None and name not in names:
            raise DataError(f"the label of {where} is {name!r}, which is not one of the {len(names)} classes")
    elif names is None:
        raise DataError(f"the label of {where} is a number; name the classes with prunus.OwnDomain(..., classes=[...])")
    elif not 0 <= cast("int", number) < len(names):
        raise DataError(f"the label of {where} is {number}; there are {len(names)} classes, from 0 to {len(names) - 1}")
    else:
        name = names[cast("int", number)]
    if not name or "/" in name or is_leftover(name) or name_problem(name):
        raise DataError(f"the class name {name!r} is empty, begins with a dot, or contains a slash; rename it")
    return name


def _as_number(label: object) -> int | None:
    if isinstance(label, (bool, str, float)):
        return None
    item: Callable[[], object] | None = getattr(label, "item", None)  # numpy's numbers, tensors and arrays of one
    value = item() if item is not None and getattr(label, "shape", None) == () else label
    return int(value) if isinstance(value, (int, np.integer)) and not isinstance(value, bool) else None


def _reason(error: Exception) -> str:
    return f"{type(error).__name__}: {error}"
