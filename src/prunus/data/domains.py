"""One domain: its classes and, for every split, its image files with their classes."""

import hashlib
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath

from prunus.config import DomainChoice
from prunus.data.sources import Source, open_source
from prunus.errors import DataError
from prunus.images import SUFFIXES
from prunus.names import name_problem

SPLITS = ("train", "validation", "test")
SPLIT_FOLDERS = {
    "train": "train",
    "test": "test",
    "val": "validation",
    "valid": "validation",
    "validation": "validation",
}
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


@dataclass(frozen=True)
class Listing:
    """The files of a domain, by split and class, not yet checked."""

    files: dict[str, dict[str, tuple[str, ...]]]  # split -> class -> image files
    folders: dict[str, str]  # split -> the name of its folder
    ignored: tuple[str, ...]

    def classes(self, split: str) -> set[str]:
        """Return the class names that have a folder in a split."""
        return set(self.files.get(split, {}))

    def faults(self) -> Iterator[tuple[str, str]]:
        """Yield the problems that prevent training, as (folder or file, what is wrong with it)."""
        yield from self._misnamed()
        if "train" not in self.files:
            folders = sorted({name.split("/")[0] for name in self.ignored})[:5]
            expected = "expected <split>/<class>/<image> with the splits train and test"
            yield "", f"there is no train split: {expected}; found {', '.join(folders) or 'nothing'}"
        for split, by_class in sorted(self.files.items()):
            for label, images in sorted(by_class.items()):
                folder = f"{self.folders[split]}/{label}/"
                if not images:
                    yield folder, "the class has no image; add some or remove the folder"
                elif label not in self.classes("train"):
                    yield folder, "the class is not in train; add it to train or remove the folder"
        if len(self.classes("train")) == 1:
            yield "train/", f"there is only one class, {min(self.classes('train'))!r}; a classifier needs two"

    def _misnamed(self) -> Iterator[tuple[str, str]]:
        """Yield the classes with a name that is not accepted, and such images of the other classes."""
        for split, by_class in sorted(self.files.items()):
            for label, images in sorted(by_class.items()):
                folder = f"{self.folders[split]}/{label}/"
                names = {folder: label} if name_problem(label) else {file: file for file in images}
                for place, name in names.items():
                    if problem := name_problem(name):
                        yield place, problem


def list_files(source: Source) -> Listing:
    """Sort file names into splits and classes; hidden files are skipped, files that are not images are set aside."""
    images: dict[str, dict[str, list[str]]] = {}
    folders: dict[str, str] = {}
    ignored: list[str] = []
    for name in source.names():
        parts = PurePosixPath(name).parts
        if not parts or any(_is_hidden(part) for part in parts[:2]):
            continue
        is_folder = name.endswith("/")
        is_hidden = any(map(_is_hidden, parts))
        split = SPLIT_FOLDERS.get(parts[0])
        in_class = split is not None and len(parts) >= (2 if is_folder else 3)
        if split and in_class:  # a class without an image is still a class: check reports it
            folders[split] = parts[0]
            class_images = images.setdefault(split, {}).setdefault(parts[1], [])
            if not is_folder and not is_hidden and PurePosixPath(name).suffix.lower() in SUFFIXES:
                class_images.append(name)
                continue
        if not is_folder and not is_hidden:
            ignored.append(name)
    by_split = {split: {label: tuple(names) for label, names in classes.items()} for split, classes in images.items()}
    return Listing(by_split, folders, tuple(ignored))


def _is_hidden(part: str) -> bool:
    return part.startswith((".", "__MACOSX"))


def open_folders(choice: DomainChoice, validation_share: float) -> Domain:
    """List the images of `<split>/<class>/<image>` and check the classes."""
    source = open_source(choice.path)
    listing = list_files(source)
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
