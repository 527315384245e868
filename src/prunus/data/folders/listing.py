"""The files of one domain, by split and class, before anything is decoded."""

import hashlib
import unicodedata
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from prunus.data.folders.structure import Entry, Structure, split_of, understand, visible
from prunus.data.sources import Source
from prunus.names import name_problem

TEST_SHARE = 0.2
EXPECTED = "expected <split>/<class>/<image> with the splits train and test, or <class>/<image>"
Files = dict[str, dict[str, list[str]]]  # split -> class -> image files


@dataclass(frozen=True)
class Listing:
    """The files of a domain, by split and class, not yet checked.

    Args:
        files: split -> class -> image files.
        folders: split -> the folder of its classes, which is "" for class folders without splits.
        empty: class folders without images, where there are no splits: they are no classes.
    """

    files: dict[str, dict[str, tuple[str, ...]]]
    folders: dict[str, str]
    ignored: tuple[str, ...]
    structure: Structure
    empty: tuple[str, ...] = ()

    def classes(self, split: str) -> set[str]:
        """Return the class names that have a folder in a split."""
        return set(self.files.get(split, {}))

    def place(self, split: str, label: str) -> str:
        """Return the folder of a class, with a slash at its end."""
        return "/".join([*filter(None, [self.folders[split]]), label, ""])

    def describe(self) -> str:
        """Say in words how the images are sorted."""
        inside = f" in {'/'.join(self.structure.inside)}" if self.structure.inside else ""
        if self.structure.kind == "classes":
            test, train = (sum(map(len, self.files.get(split, {}).values())) for split in ("test", "train"))
            held = f"{test:,} of {test + train:,} images are held out for the test, chosen by a hash of their names"
            return f"class folders without splits{inside}: {held}"
        return f"split folders {', '.join(sorted(self.folders.values()))}"

    def faults(self) -> Iterator[tuple[str, str]]:
        """Yield the problems that prevent training, as (folder or file, what is wrong with it)."""
        yield from dict.fromkeys(self._misnamed())
        if "train" not in self.files:
            yield "", self._without_train()
        for split, by_class in sorted(self.files.items()):
            for label, images in sorted(by_class.items()):
                if not images:
                    yield self.place(split, label), "the class has no image; add some or remove the folder"
                elif label not in self.classes("train"):
                    yield self.place(split, label), "the class is not in train; add it to train or remove the folder"
        if len(self.classes("train")) == 1:
            only = min(self.classes("train"))
            folder = self.folders["train"]
            yield f"{folder}/" if folder else "", f"there is only one class, {only!r}; a classifier needs two"

    def _without_train(self) -> str:
        some = ", ".join(self.structure.folders[:5])
        if self.structure.kind == "domains":
            return f"it holds several domains ({some}), not one; name each of them, or write a recipe with: prunus init"
        if self.structure.kind == "images":
            return f"it holds images, but no class folders: {EXPECTED}"
        if self.structure.kind == "classes":
            return f"the folders {some} hold images, but no class folders: {EXPECTED}"
        found = sorted({name.split("/")[0] for name in self.ignored} | {*self.structure.folders} | {*self.folders})[:5]
        return f"there is no train split: {EXPECTED}; found {', '.join(found) or 'nothing'}"

    def _misnamed(self) -> Iterator[tuple[str, str]]:
        """Yield the classes with a name that is not accepted, and such images of the other classes."""
        for split, by_class in sorted(self.files.items()):
            for label, images in sorted(by_class.items()):
                place = self.place(split, label)
                names = {place: label} if name_problem(label) else {file: file for file in images}
                for shown, name in names.items():
                    if problem := name_problem(name):
                        yield shown, problem


def list_files(source: Source, test_share: float = TEST_SHARE, split_seed: int = 0) -> Listing:
    """Sort file names into splits and classes; leftovers are skipped, files that are not images are set aside.

    Class folders without splits are split here, each class by itself.
    """
    entries = visible(source.names())
    structure = understand(entries, is_domain=True)
    depth = len(structure.inside)
    inner = [entry for entry in entries if entry.parts[:depth] == structure.inside and len(entry.parts) > depth]
    outer = [entry for entry in entries if entry.parts[:depth] != structure.inside or len(entry.parts) <= depth]
    strays = [entry.file for entry in outer if entry.file]
    if structure.kind == "classes" and not all(map(split_of, structure.filled)):
        return _class_folders(inner, strays, structure, test_share, split_seed)
    return _split_folders(inner, strays, structure)


def _split_folders(entries: Sequence[Entry], strays: Sequence[str], structure: Structure) -> Listing:
    images: Files = {}
    folders: dict[str, str] = {}
    ignored = list(strays)
    depth = len(structure.inside)
    for entry in entries:
        split = split_of(entry.parts[depth]) if structure.kind == "splits" else None
        in_class = len(entry.parts) - depth >= (2 if entry.file is None else 3)
        if split and in_class:  # a class without an image is still a class: check reports it
            folders[split] = "/".join(entry.parts[: depth + 1])
            class_images = images.setdefault(split, {}).setdefault(entry.parts[depth + 1], [])
            if entry.is_image and entry.file:
                class_images.append(entry.file)
                continue
        if entry.file:
            ignored.append(entry.file)
    return Listing(_frozen(images), folders, tuple(sorted(ignored)), structure)


def _class_folders(
    entries: Sequence[Entry], strays: Sequence[str], structure: Structure, test_share: float, split_seed: int
) -> Listing:
    by_class: dict[str, dict[str, str]] = {name: {} for name in structure.folders}  # class -> file -> name in the class
    ignored = list(strays)
    depth = len(structure.inside)
    for entry in entries:
        if entry.is_image and entry.file and len(entry.parts) - depth >= 2:
            by_class[entry.parts[depth]][entry.file] = "/".join(entry.parts[depth:])
        elif entry.file:
            ignored.append(entry.file)
    images: Files = {"train": {}, "test": {}}
    for label, files in by_class.items():
        test = held_out(files, test_share, split_seed)
        images["train"][label] = [file for file in files if file not in test]
        images["test"][label] = [file for file in files if file in test]
    kept = {split: {label: files for label, files in classes.items() if files} for split, classes in images.items()}
    folder = "/".join(structure.inside)
    empty = tuple(f"{folder}/{label}/".lstrip("/") for label, files in sorted(by_class.items()) if not files)
    used = {split: classes for split, classes in kept.items() if classes}
    return Listing(_frozen(used), dict.fromkeys(used, folder), tuple(sorted(ignored)), structure, empty)


def held_out(files: dict[str, str], share: float, seed: int) -> set[str]:
    """Choose the test images of one class: the share of names with the smallest hashes, but never the whole class.

    A new image moves at most one other image of its class, and none of other classes.

    Args:
        files: file -> its name from the class folder on, so that a domain may move.
    """

    def order(file: str) -> bytes:
        name = unicodedata.normalize("NFC", files[file])  # a Mac writes the same name with other characters
        return hashlib.sha256(f"{seed}/{name}".encode(errors="surrogatepass")).digest()

    count = min(max(1, round(share * len(files))), len(files) - 1)
    return set(sorted(files, key=order)[: max(count, 0)])


def _frozen(images: Files) -> dict[str, dict[str, tuple[str, ...]]]:
    return {split: {label: tuple(files) for label, files in classes.items()} for split, classes in images.items()}
