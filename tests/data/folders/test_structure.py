"""How images are sorted is told from names alone."""

from __future__ import annotations

import pytest

from prunus.data.folders.structure import Structure, is_leftover, split_of, understand, visible
from tests.makers.folder_names import numbered


def of(*names: str, is_domain: bool = False) -> Structure:
    return understand(visible(names), is_domain)


@pytest.mark.parametrize(
    ("folder", "split"),
    [
        *((name, "train") for name in ("train", "Train", "TRAINING", "train_set", "Train Set", "train-data")),
        *((name, "validation") for name in ("val", "VALID", "Validation", "dev")),
        *((name, "test") for name in ("test", "Testing", "test-set")),
        *((name, None) for name in ("trains", "tested", "rose", "")),
    ],
)
def test_usual_spellings_of_the_splits_are_known(folder: str, split: str | None) -> None:
    assert split_of(folder) == split


@pytest.mark.parametrize("name", [".DS_Store", "._0.png", "__MACOSX", "Thumbs.db", "desktop.ini", ".git", "@eaDir"])
def test_what_computers_add_is_a_leftover(name: str) -> None:
    assert is_leftover(name)
    assert not is_leftover(f"a{name}")


def test_a_hidden_file_leaves_its_folder_and_a_hidden_folder_nothing_inside() -> None:
    entries = visible(
        ["a/.DS_Store", "a/Thumbs.db", "b/.cache/x.png", ".git/x.png", "__MACOSX/a/0.png", "c/", "d/0.png"]
    )
    assert [(entry.parts, entry.file) for entry in entries] == [
        (("a",), None),
        (("b",), None),
        (("c",), None),
        (("d", "0.png"), "d/0.png"),
    ]


def test_folders_of_images_are_classes() -> None:
    found = of(*numbered({"rose": 3, "tulip": 1}), "README.md", "empty/", "rose/.DS_Store")
    assert found == Structure("classes", (), ("empty", "rose", "tulip"), ("rose", "tulip"))


def test_folders_of_folders_of_images_are_domains() -> None:
    found = of(*numbered({"birds/owl": 2, "birds/wren": 2, "flowers/rose": 2, "flowers/tulip": 2}))
    assert found == Structure("domains", (), ("birds", "flowers"), ("birds", "flowers"))


@pytest.mark.parametrize("train", ["train", "Training", "TRAIN"])
def test_a_train_folder_with_class_folders_is_a_split(train: str) -> None:
    assert of(*numbered({f"{train}/rose": 1, "test/rose": 1})).kind == "splits"


def test_a_class_may_be_called_train() -> None:
    found = of(*numbered({"train": 4, "plane": 4, "ship": 4}))
    assert (found.kind, found.filled) == ("classes", ("plane", "ship", "train"))


@pytest.mark.parametrize("inside", [("images",), ("archive", "images"), ("some folder",), ("a", "b", "c")])
def test_folders_around_everything_are_looked_through(inside: tuple[str, ...]) -> None:
    around = "/".join(inside)
    assert of(*numbered({f"{around}/train/rose": 1, f"{around}/test/rose": 1})) == Structure("splits", inside)
    assert of(*numbered({f"{around}/rose": 2, f"{around}/tulip": 2})).inside == inside
    several = of(*numbered({f"{around}/{name}/train/x": 1 for name in ("birds", "flowers")}))
    assert (several.kind, several.inside, several.filled) == ("domains", inside, ("birds", "flowers"))


def test_a_wrapper_may_have_neighbours_without_images() -> None:
    names = [*numbered({"images/rose": 2, "images/tulip": 2}), "labels/rose.txt", "images.zip"]
    assert of(*names) == Structure("classes", ("images",), ("rose", "tulip"), ("rose", "tulip"))


def test_a_folder_with_neighbours_is_a_domain_unless_all_of_it_is_known_to_be_one() -> None:
    names = [*numbered({"flowers/rose": 2, "flowers/tulip": 2}), "notes/x.txt"]
    assert of(*names) == Structure("domains", (), ("flowers", "notes"), ("flowers",))
    assert of(*names, is_domain=True).inside == ("flowers",)


def test_images_in_a_folder_of_their_own_belong_to_the_class_around_it() -> None:
    found = of(*numbered({"rose/photos": 3, "tulip/photos": 3, "tulip": 1}))
    assert (found.kind, found.filled) == ("classes", ("rose", "tulip"))


def test_most_folders_decide_and_splits_decide_alone() -> None:
    few = numbered({"a": 2, "b": 2, "c": 2, "d/x": 2, "d/y": 2})
    assert of(*few).kind == "classes"
    assert of(*few, *numbered({"e/train/x": 1})).kind == "domains"


def test_zip_files_are_domains_unless_they_lie_beside_classes() -> None:
    assert of("birds.zip", "flowers.zip").filled == ("birds.zip", "flowers.zip")
    assert of("flowers.zip", *numbered({"rose": 2, "tulip": 2})).filled == ("rose", "tulip")


def test_loose_images_are_no_classes_and_few_of_them_change_nothing() -> None:
    assert of("0.png", "1.jpg").kind == "images"
    assert of("0.png", *numbered({"rose": 2, "tulip": 2})).kind == "classes"


@pytest.mark.parametrize("names", [(), ("README.md",), ("a/", "b/c/"), ("a/x.txt",), (".hidden/0.png",)])
def test_without_images_there_is_nothing(names: tuple[str, ...]) -> None:
    assert of(*names).kind == "nothing"


def test_very_deep_folders_end_somewhere() -> None:
    assert of("/".join([*"abcdefghijklmnop", "0.png"])).kind == "classes"
