from __future__ import annotations

import hashlib
import os
import shutil
import zipfile
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from prunus.config import DomainChoice
from prunus.data.domains import Domain, Item, hold_out
from prunus.data.folders.listing import list_files
from prunus.data.layouts import open_domain
from prunus.data.sources import open_source
from prunus.errors import DataError

MakeDomain = Callable[..., Path]
MakeZip = Callable[[Path], Path]


def opened(path: Path, validation_share: float = 0.1) -> Domain:
    return open_domain(DomainChoice(name="mine", path=str(path)), validation_share)


def items(label: int, count: int) -> list[Item]:
    return [Item(f"train/{label}/{index}.png", label) for index in range(count)]


def test_a_folder_is_listed_by_class_and_split(make_domain: MakeDomain) -> None:
    domain = opened(make_domain(classes=("b", "a"), train=3, validation=1, test=2))
    assert (domain.name, domain.classes) == ("mine", ("a", "b"))
    assert domain.train == (*(Item(f"train/a/{i}.png", 0) for i in range(3)), *items_of_b("train", 3))
    assert domain.validation == (Item("validation/a/0.png", 0), *items_of_b("validation", 1))
    assert domain.test == (*(Item(f"test/a/{i}.png", 0) for i in range(2)), *items_of_b("test", 2))


def items_of_b(split: str, count: int) -> list[Item]:
    return [Item(f"{split}/b/{index}.png", 1) for index in range(count)]


@pytest.mark.parametrize("validation", [0, 2])
def test_a_folder_and_its_zip_give_the_same_domain(make_domain: MakeDomain, make_zip: MakeZip, validation: int) -> None:
    folder = make_domain(train=10, validation=validation)
    loose, packed = opened(folder), opened(make_zip(folder))
    assert replace(loose, source=packed.source) == packed


def test_the_same_label_goes_with_the_same_class_in_every_split(make_domain: MakeDomain) -> None:
    folder = make_domain(classes=("a", "b", "c"))
    shutil.rmtree(folder / "test" / "a")
    assert {item.label for item in opened(folder).test} == {1, 2}


@pytest.mark.parametrize("alias", ["val", "valid", "validation"])
def test_the_validation_split_may_have_its_usual_names(make_domain: MakeDomain, alias: str) -> None:
    folder = make_domain(validation=1, train=10)
    (folder / "validation").rename(folder / alias)
    domain = opened(folder)
    assert [item.file for item in domain.validation] == [f"{alias}/a/0.png", f"{alias}/b/0.png"]
    assert len(domain.train) == 20


def test_without_a_validation_split_a_share_of_train_is_held_out(make_domain: MakeDomain) -> None:
    domain = opened(make_domain(train=10), validation_share=0.3)
    assert Counter(item.label for item in domain.validation) == {0: 3, 1: 3}
    assert Counter(item.label for item in domain.train) == {0: 7, 1: 7}
    assert all(item.file.startswith("train/") for item in domain.validation)


def test_splits_can_be_joined(make_domain: MakeDomain) -> None:
    domain = opened(make_domain(train=10))
    assert domain.split("train+validation") == domain.train + domain.validation
    assert domain.split("test") == domain.test


def test_a_domain_without_test_images_can_be_trained(make_domain: MakeDomain) -> None:
    assert opened(make_domain(test=0)).test == ()


def test_images_in_deeper_folders_belong_to_their_class(make_domain: MakeDomain) -> None:
    folder = make_domain()
    (folder / "train" / "a" / "deep").mkdir()
    (folder / "train" / "a" / "0.png").rename(folder / "train" / "a" / "deep" / "0.PNG")
    domain = opened(folder)
    assert Item("train/a/deep/0.PNG", 0) in domain.train + domain.validation


def test_hidden_files_are_passed_over_and_others_are_set_aside(make_domain: MakeDomain) -> None:
    folder = make_domain()
    for name in ("train/a/.DS_Store", "train/a/notes.txt", "README.md", "train/loose.png", "other/a/0.png"):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).touch()
    listing = list_files(open_source(folder))
    assert listing.ignored == ("README.md", "other/a/0.png", "train/a/notes.txt", "train/loose.png")
    assert listing.files["train"]["a"] == tuple(f"train/a/{index}.png" for index in range(4))


def test_what_a_mac_adds_to_a_zip_is_passed_over(make_domain: MakeDomain, make_zip: MakeZip) -> None:
    path = make_zip(make_domain())
    before = opened(path).train
    with zipfile.ZipFile(path, "a") as file:
        file.writestr("__MACOSX/train/a/._0.png", b"x")
        file.writestr("__MACOSX/notes", b"x")
    assert opened(path).train == before
    assert list_files(open_source(path)).ignored == ()


def test_held_out_images_are_the_ones_with_the_smallest_hash_of_their_name() -> None:
    everything = items(0, 10) + items(1, 20)
    train, held = hold_out(everything, 0.2)
    by_hash = sorted(everything, key=lambda item: hashlib.sha256(item.file.encode()).digest())
    smallest = [item for item in by_hash if item.label == 0][:2] + [item for item in by_hash if item.label == 1][:4]
    assert set(held) == set(smallest)
    assert hold_out(everything[::-1], 0.2) == (train[::-1], held[::-1])


@given(sizes=st.lists(st.integers(1, 40), min_size=1, max_size=5), share=st.floats(0.01, 0.99))
def test_holding_out_parts_every_class_and_leaves_it_at_least_one_image(sizes: list[int], share: float) -> None:
    everything = [item for label, size in enumerate(sizes) for item in items(label, size)]
    train, held = hold_out(everything, share)
    assert sorted([*train, *held], key=everything.index) == everything
    left, taken = Counter(item.label for item in train), Counter(item.label for item in held)
    for label, size in enumerate(sizes):
        assert left[label] >= 1
        assert taken[label] == min(max(1, round(share * size)), size - 1)


def test_a_domain_without_train_is_refused_with_what_was_found(make_domain: MakeDomain, make_zip: MakeZip) -> None:
    folder = make_domain()
    (folder / "train").rename(folder / "learn")
    for path in (folder, make_zip(folder)):
        with pytest.raises(DataError, match=r"domain 'mine' .*: there is no train split: expected .*; found learn"):
            opened(path)


def test_an_empty_folder_is_no_domain(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"there is no train split: .*; found nothing"):
        opened(tmp_path)


@pytest.mark.parametrize("split", ["train", "test"])
def test_an_empty_class_is_refused_by_its_name(make_domain: MakeDomain, make_zip: MakeZip, split: str) -> None:
    folder = make_domain()
    (folder / split / "void").mkdir()
    for path in (folder, make_zip(folder)):
        with pytest.raises(DataError, match=f"{split}/void/: the class has no image; add some"):
            opened(path)


@pytest.mark.parametrize("content", [".DS_Store", "notes.txt", "empty/", "empty.png/"])
def test_a_class_that_holds_anything_but_images_is_as_good_as_empty(
    make_domain: MakeDomain, make_zip: MakeZip, content: str
) -> None:
    folder = make_domain()
    (folder / "train" / "void").mkdir()
    inside = folder / "train" / "void" / content
    inside.mkdir() if content.endswith("/") else inside.touch()
    for path in (folder, make_zip(folder)):
        with pytest.raises(DataError, match="train/void/: the class has no image; add some"):
            opened(path)


@pytest.mark.parametrize("split", ["validation", "test"])
def test_a_class_that_is_not_in_train_is_refused_by_its_name(make_domain: MakeDomain, split: str) -> None:
    folder = make_domain(classes=("a", "b", "c"), validation=1)
    for other in {"train", "validation", "test"} - {split}:
        shutil.rmtree(folder / other / "c")
    with pytest.raises(DataError, match=f"{split}/c/: the class is not in train; add it"):
        opened(folder)


def test_a_single_class_is_refused(make_domain: MakeDomain) -> None:
    with pytest.raises(DataError, match="there is only one class, 'a'; a classifier needs two"):
        opened(make_domain(classes=("a",)))


@pytest.mark.parametrize("name", [b"train/a/\xff.png", b"train/a/\x1b.png", b"train/\xfe/0.png", b"test/a/\n/0.png"])
def test_a_name_that_cannot_be_written_or_shown_stops_a_training_run_with_one_line(
    make_domain: MakeDomain, name: bytes
) -> None:
    folder = make_domain("mine")
    file = folder / os.fsdecode(name)
    file.parent.mkdir(exist_ok=True)
    shutil.copy(folder / "train" / "a" / "0.png", file)
    with pytest.raises(DataError, match=r"domain 'mine' .*: the name .*; rename it") as caught:
        open_domain(DomainChoice(name="mine", path=str(folder)))
    assert str(caught.value).isprintable()
