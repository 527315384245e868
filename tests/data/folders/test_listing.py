"""The files of one domain: what is a class, what is held out for the test, what is set aside."""

from __future__ import annotations

import hashlib
import unicodedata
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from prunus.config import DomainChoice
from prunus.data.folders.listing import Listing, held_out, list_files
from prunus.data.layouts import open_domain
from prunus.data.sources import open_source
from prunus.errors import DataError
from tests.makers.folder_names import numbered, write_files


def listed(root: Path, *names: str, share: float = 0.2, seed: int = 0) -> Listing:
    return list_files(open_source(write_files(root, names)), share, seed)


def test_class_folders_are_split_class_by_class(tmp_path: Path) -> None:
    listing = listed(tmp_path, *numbered({"rose": 20, "tulip": 5, "one": 1}))
    sizes = {split: {label: len(files) for label, files in labels.items()} for split, labels in listing.files.items()}
    assert sizes == {"train": {"rose": 16, "tulip": 4, "one": 1}, "test": {"rose": 4, "tulip": 1}}
    ordered = sorted((f"rose/{i}.png" for i in range(20)), key=lambda n: hashlib.sha256(f"0/{n}".encode()).digest())
    assert set(listing.files["test"]["rose"]) == set(ordered[:4])
    assert list(listing.faults()) == []


def test_another_seed_holds_out_other_images_and_another_share_more(tmp_path: Path) -> None:
    names = numbered({"rose": 20, "tulip": 20})
    first, other = listed(tmp_path, *names), listed(tmp_path, *names, seed=1)
    assert first.files["test"] != other.files["test"]
    assert len(listed(tmp_path, *names, share=0.5).files["test"]["rose"]) == 10


def test_the_choice_of_a_domain_sets_share_and_seed(tmp_path: Path) -> None:
    write_files(tmp_path / "flowers", numbered({"rose": 20, "tulip": 20}))
    path = str(tmp_path / "flowers")
    tests = [
        {item.file for item in open_domain(DomainChoice(name="f", path=path, test_share=share, split_seed=seed)).test}
        for share, seed in ((0.2, 0), (0.2, 1), (0.3, 0))
    ]
    assert [len(test) for test in tests] == [8, 8, 12]
    assert tests[0] != tests[1]
    assert tests[0] < tests[2]


@given(st.sets(st.integers(0, 500), min_size=2, max_size=40), st.integers(501, 999), st.floats(0.05, 0.95))
def test_a_new_image_moves_at_most_one_other_image(numbers: set[int], new: int, share: float) -> None:
    before = {f"rose/{number}.png": f"rose/{number}.png" for number in numbers}
    after = before | {f"rose/{new}.png": f"rose/{new}.png"}
    held, now = held_out(before, share, 0), held_out(after, share, 0) - {f"rose/{new}.png"}
    assert len(held ^ now) <= 1
    assert 0 < len(held) < len(before)


def test_the_split_survives_a_move_and_a_file_system_with_other_accents(tmp_path: Path) -> None:
    names = numbered({unicodedata.normalize("NFC", "Möwe"): 10, "owl": 10})
    here = listed(tmp_path / "a", *names).files["test"]
    moved = [f"archive/images/{unicodedata.normalize('NFD', name)}" for name in names]
    there = listed(tmp_path / "b", *moved).files["test"]
    assert sorted(Path(file).name for files in here.values() for file in files) == sorted(
        Path(file).name for files in there.values() for file in files
    )


def test_folders_without_images_are_no_classes_and_loose_files_are_set_aside(tmp_path: Path) -> None:
    names = [*numbered({"rose": 4, "tulip": 4}), "void/", "texts/a.txt", "loose.png", "README.md", "rose/Thumbs.db"]
    listing = listed(tmp_path, *names)
    assert listing.classes("train") == {"rose", "tulip"}
    assert listing.empty == ("texts/", "void/")
    assert listing.ignored == ("README.md", "loose.png", "texts/a.txt")


def test_split_folders_in_another_folder_are_found_by_their_usual_names(tmp_path: Path) -> None:
    names = numbered({f"archive/{split}/{c}": 2 for split in ("Training", "valid", "Testing") for c in "ab"})
    listing = listed(tmp_path, *names, "archive/notes.txt")
    assert listing.folders == {"train": "archive/Training", "validation": "archive/valid", "test": "archive/Testing"}
    assert listing.files["train"]["a"] == ("archive/Training/a/0.png", "archive/Training/a/1.png")
    assert listing.ignored == ("archive/notes.txt",)
    assert listing.describe() == "split folders archive/Testing, archive/Training, archive/valid"


def test_a_domain_in_other_folders_opens_like_any_other(tmp_path: Path) -> None:
    write_files(tmp_path, numbered({"archive/images/rose": 10, "archive/images/tulip": 10}))
    domain = open_domain(DomainChoice(name="flowers", path=str(tmp_path)))
    assert domain.classes == ("rose", "tulip")
    assert (len(domain.train), len(domain.validation), len(domain.test)) == (14, 2, 4)
    held = [{item.file for item in split} for split in (domain.train, domain.validation, domain.test)]
    assert len(set.union(*held)) == 20


@pytest.mark.parametrize(
    ("names", "message"),
    [
        (numbered({"birds/train/owl": 1, "flowers/train/rose": 1}), "several domains .birds, flowers., not one; name"),
        (numbered({"birds/owl": 2, "birds/wren": 2, "art/x": 2, "art/y": 2}), "several domains .art, birds."),
        (["0.png", "1.png"], "it holds images, but no class folders: expected <split>/<class>/<image>"),
        (numbered({"train": 3, "test": 2}), "the folders test, train hold images, but no class folders: expected"),
        (numbered({"rose": 3}), "there is only one class, 'rose'; a classifier needs two"),
        (["a/x.txt"], "there is no train split: expected .* or <class>/<image>; found a"),
    ],
)
def test_what_is_no_domain_is_refused_in_words(tmp_path: Path, names: list[str], message: str) -> None:
    with pytest.raises(DataError, match=message):
        open_domain(DomainChoice(name="mine", path=str(write_files(tmp_path, names))))


def test_a_class_with_a_bad_name_is_one_fault(tmp_path: Path) -> None:
    listing = listed(tmp_path, *numbered({"a": 5, "b\x1b": 5}))
    assert [folder for folder, _ in listing.faults()] == ["b\x1b/"]
