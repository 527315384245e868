"""One domain: its classes and, for every split, its image files with their classes."""

import hashlib
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from prunus.config import DomainChoice
from prunus.data.folders.listing import list_files
from prunus.data.sources import Source, open_source
from prunus.errors import DataError

SPLITS = ("train", "validation", "test")
UNLABELLED = -1


@dataclass(frozen=True)
class Item:
    """One image file and its class, and the id that a benchmark has for it."""

    file: str
    label: int
    image_id: int = 0


@dataclass(frozen=True)
class Domain:
    """A named set of labelled images, split for training and testing."""

    name: str
    classes: tuple[str, ...]
    train: tuple[Item, ...]
    validation: tuple[Item, ...]
    test: tuple[Item, ...]
    source: Source

    def split(self, name: str) -> tuple[Item, ...]:
        """Return the items of one split, or of several joined by a plus sign."""
        return tuple(item for part in name.split("+") for item in getattr(self, part))


def open_folders(choice: DomainChoice, validation_share: float) -> Domain:
    """List the images of `<split>/<class>/<image>` or `<class>/<image>` and check the classes."""
    source = open_source(choice.path)
    listing = list_files(source, choice.test_share, choice.split_seed)
    for folder, message in listing.faults():
        raise DataError(f"domain {choice.name!r} ({choice.path}): {folder}{': ' if folder else ''}{message}")
    classes = tuple(sorted(listing.classes("train")))
    label_of = {name: label for label, name in enumerate(classes)}
    splits = {
        split: tuple(Item(file, label_of[name]) for name, files in sorted(by_class.items()) for file in files)
        for split, by_class in listing.files.items()
    }
    train, validation = splits["train"], splits.get("validation", ())
    if not validation:
        train, validation = hold_out(train, validation_share)
    return Domain(choice.name, classes, train, validation, splits.get("test", ()), source)


def hold_out(items: Sequence[Item], share: float) -> tuple[tuple[Item, ...], tuple[Item, ...]]:
    """Split off a share of every class, chosen by a hash of the file name: the same on every machine."""
    sizes = Counter(item.label for item in items)
    quota = {label: min(max(1, round(share * size)), size - 1) for label, size in sizes.items()}
    held: set[str] = set()
    for item in sorted(items, key=lambda item: hashlib.sha256(item.file.encode()).digest()):
        if quota[item.label] > 0:
            quota[item.label] -= 1
            held.add(item.file)
    return tuple(i for i in items if i.file not in held), tuple(i for i in items if i.file in held)
