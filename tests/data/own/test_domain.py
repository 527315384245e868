"""Datasets and arrays become domains as folders do."""

from __future__ import annotations

import random
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from torch.utils.data import Dataset, IterableDataset, Subset

import prunus
from prunus.config import DomainChoice
from prunus.data.domains import Domain
from prunus.data.layouts import open_domain
from prunus.data.loading import load_images
from prunus.data.own.domain import OwnDomain
from prunus.data.own.passing import passing_domains
from prunus.errors import DataError
from prunus.images import Preprocess
from tests.makers.own_networks import CLASSES, SIZE, leaf_recipe, pictures

STORED = Preprocess(size=SIZE, resize=SIZE, mean=(0, 0, 0), std=(1, 1, 1))
CHOICE = DomainChoice(name="shades", path="python:shades")


class Shades(Dataset[tuple[object, object]]):
    """Images in one of the forms that datasets return."""

    classes = CLASSES

    def __init__(self, form: str = "array", count: int = 20, seed: int = 0) -> None:
        self.form = form
        self.images, self.labels = pictures(count, seed)
        self.reads = 0

    def __len__(self) -> int:
        return len(self.images)

    def __getitem__(self, index: int) -> tuple[object, object]:
        self.reads += 1
        array, label = self.images[index], self.labels[index]
        tensor = torch.from_numpy(array).permute(2, 0, 1)
        forms: dict[str, tuple[object, object]] = {
            "array": (array, label),
            "picture": (Image.fromarray(array), np.int64(label)),
            "tensor": (tensor, torch.tensor(label)),
            "floats": (tensor.float() / 255, label),
            "float array": (array / 255, CLASSES[label]),
        }
        return forms[self.form]


def _open(domain: object, choice: DomainChoice = CHOICE) -> Domain:
    with passing_domains({"shades": domain}):
        return open_domain(choice)


@pytest.mark.parametrize("form", ["array", "picture", "tensor", "floats", "float array"])
def test_every_form_of_an_image_becomes_the_same_pixels(form: str) -> None:
    shades = Shades(form)
    domain = _open(shades)
    assert domain.classes == CLASSES
    images = load_images(domain, "train+validation+test", STORED)
    originals = {picture.tobytes(): label for picture, label in zip(shades.images, shades.labels, strict=True)}
    assert len(images) == len(originals) == 20
    for pixels, label in zip(images.images, images.labels, strict=True):
        assert originals[pixels.transpose(1, 2, 0).tobytes()] == label


def test_a_dataset_alone_is_split_as_class_folders_are(tmp_path: Path) -> None:
    shades = Shades()
    for index, (image, label) in enumerate(zip(shades.images, shades.labels, strict=True)):
        file = tmp_path / CLASSES[label] / f"{index:08d}.ppm"
        file.parent.mkdir(exist_ok=True)
        Image.fromarray(image).save(file)
    ours, theirs = _open(shades), open_domain(DomainChoice(name="shades", path=str(tmp_path)))
    for split in ("train", "validation", "test"):
        assert ours.split(split) == theirs.split(split)
        same = [load_images(domain, split, STORED).fingerprint() for domain in (ours, theirs)]
        assert same[0] == same[1]


def test_splits_that_are_passed_stay_as_they_are() -> None:
    own = OwnDomain(train=Shades(), validation=Shades(count=4, seed=1), test=pictures(6, 2), classes=CLASSES)
    domain = _open(own)
    assert [len(domain.split(split)) for split in ("train", "validation", "test")] == [20, 4, 6]
    assert domain.test[0].file == "test/dark/00000000.ppm"
    no_test = _open(OwnDomain(train=Shades(), validation=Shades(count=4, seed=1)))
    assert (len(no_test.train), len(no_test.test)) == (20, 0)


def test_the_classes_of_a_subset_are_those_of_its_dataset() -> None:
    assert _open(Subset(Shades(), range(10))).classes == CLASSES


def test_grey_images_and_images_with_transparency_are_converted() -> None:
    grey = [np.full((SIZE, SIZE), value, np.uint8) for value in (10, 200, 20, 210)]
    clear = [np.zeros((SIZE, SIZE, 4), np.uint8) for _ in range(4)]
    both = OwnDomain(([*grey, *clear], ["grey"] * 4 + ["clear"] * 4))
    domain = _open(both)
    images = load_images(domain, "train+validation+test", STORED)
    assert set(images.images[images.labels == domain.classes.index("clear")].ravel()) == {255}
    assert set(images.images[images.labels == domain.classes.index("grey")].ravel()) == {10, 20, 200, 210}


def test_decoded_images_are_cached_by_their_content(tmp_path: Path) -> None:
    first = load_images(_open(Shades()), "train", STORED, cache=tmp_path)
    again = load_images(_open(Shades()), "train", STORED, cache=tmp_path)
    other = load_images(_open(Shades(seed=1)), "train", STORED, cache=tmp_path)
    assert first.cache == again.cache != other.cache
    assert np.array_equal(first.images, again.images)
    assert not np.array_equal(first.images, other.images)


def test_a_dataset_is_looked_through_once() -> None:
    shades = Shades()
    own = OwnDomain(shades)
    _open(own)
    reads = shades.reads
    assert reads == 20 + 10  # every second image once more, to notice random ones
    assert "0x" in repr(own)  # not thousands of numbers
    _open(own)
    assert shades.reads == reads


class _OneAtATime(Shades):
    """Fails if two threads read at once, as many files do."""

    busy = 0

    def __getitem__(self, index: int) -> tuple[object, object]:
        self.busy += 1
        time.sleep(0.001)
        assert self.busy == 1
        self.busy -= 1
        return super().__getitem__(index)


def test_a_dataset_is_read_by_one_thread_at_a_time() -> None:
    assert len(load_images(_open(_OneAtATime()), "train+validation+test", STORED)) == 20


class _Random(Shades):
    def __getitem__(self, index: int) -> tuple[object, object]:
        return np.random.default_rng().integers(0, 255, (SIZE, SIZE, 3)).astype(np.uint8), 0


class _Mirroring(Shades):
    def __getitem__(self, index: int) -> tuple[object, object]:
        image = self.images[index]
        return (image[:, ::-1] if random.random() < 0.5 else image), self.labels[index]


class _Broken(Shades):
    def __getitem__(self, index: int) -> tuple[object, object]:
        raise OSError("disk on fire")


class _Stream(IterableDataset[object]):
    def __iter__(self) -> Iterator[object]:
        yield from zip(*pictures(4), strict=True)


IMAGES, LABELS = pictures(4)
WRONG: dict[str, tuple[object, str]] = {
    "a path": ("data/cars", r"domain 'shades' must be a torch dataset .*, got str; folders are named in the recipe"),
    "a stream": (_Stream(), "must be a torch dataset with a length, .*, got _Stream"),
    "another number of labels": ((IMAGES, LABELS[:3]), r"train must be a pair .* of the same number, got 4 and 3"),
    "numbers without classes": (
        (IMAGES, LABELS),
        r"the label of train\[0\] is a number; name the classes with prunus.Own",
    ),
    "a label too large": (OwnDomain((IMAGES, [0, 1, 2, 1]), classes=CLASSES), r"train\[2\] is 2; there are 2 classes"),
    "an unknown class": (OwnDomain((IMAGES, ["x"] * 4), classes=CLASSES), "is 'x', which is not one of the 2 classes"),
    "a label of a wrong type": (
        OwnDomain((IMAGES, [0.5] * 4), classes=CLASSES),
        "must be a number or the name .*float",
    ),
    "two classes of one name": (OwnDomain((IMAGES, LABELS), classes=("a", "a")), "two classes are called 'a'; rename"),
    "a class with a slash": (OwnDomain((IMAGES, LABELS), classes=("a/b", "c")), "'a/b' is empty, begins with a dot"),
    "a hidden class": (OwnDomain((IMAGES, LABELS), classes=(".a", "c")), "the class name '.a' is empty, begins with"),
    "one class": (OwnDomain((IMAGES, [0] * 4), classes=CLASSES), "there is only one class, 'dark'"),
    "no images": (OwnDomain(([], [])), r"domain 'shades' \(python:shades\): there is no train split"),
    "normalized": (
        ([image / 64.0 - 2 for image in IMAGES], ["a", "b"] * 2),
        r"has pixels from -2 to .*before they are n",
    ),
    "NaN": (([np.full((4, 4, 3), np.nan)] * 4, ["a", "b"] * 2), "has pixels from nan to nan"),
    "whole numbers": (
        ([np.zeros((4, 4, 3), np.int64)] * 4, ["a", "b"] * 2),
        "has pixels of type int64; expected uint8",
    ),
    "colours first": (([np.zeros((3, 9, 9), np.uint8)] * 4, ["a", "b"] * 2), r"array of shape \(3, 9, 9\); expected"),
    "colours last": (([torch.zeros(9, 9, 3)] * 4, ["a", "b"] * 2), r"tensor of shape \(9, 9, 3\); expected"),
    "names of files": ((["a.png"] * 4, ["a", "b"] * 2), r"train\[0\] is a str; expected a PIL image, an array"),
    "sometimes mirrored": (_Mirroring(), r"train\[\d+\] is another image each time it is read"),
    "random": (_Random(), r"train\[0\] is another image each time it is read; remove random transforms"),
    "broken": (_Broken(), r"train\[0\] is not a pair of an image and a label \(OSError: disk on fire\)"),
    "dictionaries": (
        [{"image": IMAGES[0], "label": 0}],
        r"\(TypeError: it is a dictionary with the keys image, label\)",
    ),
    "no pairs": (IMAGES, r"train\[0\] is not a pair of an image and a label"),
}


@pytest.mark.parametrize("kind", WRONG)
def test_wrong_data_is_one_clear_error(kind: str) -> None:
    data, message = WRONG[kind]
    with pytest.raises(DataError, match=message):
        _open(data)


def test_images_that_are_not_passed_are_asked_for() -> None:
    with (
        passing_domains({"cars": Shades()}),
        pytest.raises(DataError, match=r"not passed; passed: cars; in Python pass"),
    ):
        open_domain(CHOICE)
    with pytest.raises(
        DataError, match=r"'shades' come from Python, and were not passed; in Python pass domains=\{'sha"
    ):
        open_domain(CHOICE)


def test_own_data_is_checked_as_folders_are() -> None:
    images, labels = pictures(8)
    own = OwnDomain(train=(images, labels), test=([*images[:3], images[0]], [0, 1, 0, 0]), classes=CLASSES)
    report = prunus.check(leaf_recipe(), domains={"shades": own})
    assert report.domains[0].images == {"train": 6, "validation": 2, "test": 4}  # as training uses them
    messages = [(finding.file, finding.message) for finding in report.findings]
    assert (
        "test/dark/00000000.ppm",
        "the same bytes as train/dark/00000000.ppm: the test accuracy would be too high",
    ) in (messages)
    assert not report.has_errors
