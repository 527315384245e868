"""Domains are found in folders, and named after the folder that says what they hold."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from prunus.data.folders.finding import Place, find_domains
from prunus.errors import DataError
from tests.makers.folder_names import numbered, write_files


def found(root: Path, *names: str) -> list[tuple[str, str]]:
    return [
        (place.name, Path(place.path).relative_to(root).as_posix()) for place in find_domains(write_files(root, names))
    ]


def test_class_folders_are_one_domain_called_after_the_folder(tmp_path: Path) -> None:
    assert found(tmp_path / "flowers", *numbered({"rose": 2, "tulip": 2})) == [("flowers", ".")]


def test_folders_with_class_folders_are_domains(tmp_path: Path) -> None:
    names = numbered({"My Art/cubism": 2, "My Art/pop": 2, "Vögel/Möwe": 2, "Vögel/owl": 2})
    assert found(tmp_path / "data", *names) == [("My-Art", "My Art"), ("Vogel", "Vögel")]


@pytest.mark.parametrize(
    ("folder", "names", "expected"),
    [
        ("data", {"flowers/rose": 2, "flowers/tulip": 2}, [("flowers", "flowers")]),
        ("flowers", {"images/train/rose": 2, "images/test/rose": 2}, [("flowers", ".")]),
        ("flowers", {"archive/images/rose": 2, "archive/images/tulip": 2}, [("flowers", ".")]),
        ("data", {"images/rose": 2, "images/tulip": 2}, [("data", ".")]),
        ("data", {"archive/a/train/x": 1, "archive/b/train/x": 1}, [("a", "archive/a"), ("b", "archive/b")]),
    ],
)
def test_a_domain_is_not_called_images_or_archive(
    tmp_path: Path, folder: str, names: dict[str, int], expected: list[tuple[str, str]]
) -> None:
    assert found(tmp_path / folder, *numbered(names)) == expected


def test_a_zip_file_is_a_domain_unless_it_was_unpacked_beside_itself(
    tmp_path: Path, make_domain: Callable[..., Path], make_zip: Callable[[Path], Path]
) -> None:
    make_zip(make_domain("data/birds"))
    make_zip(make_domain("data/signs"))
    shutil.rmtree(tmp_path / "data" / "signs")
    assert [Path(place.path).name for place in find_domains(tmp_path / "data")] == ["birds", "signs.zip"]
    assert find_domains(tmp_path / "data" / "signs.zip")[0].name == "signs"


def test_a_folder_without_images_beside_domains_is_marked(tmp_path: Path) -> None:
    write_files(tmp_path, [*numbered({"birds/train/owl": 1, "flowers/train/rose": 1}), "notes/x.txt"])
    assert [(place.name, place.has_images) for place in find_domains(tmp_path)] == [
        ("birds", True),
        ("flowers", True),
        ("notes", False),
    ]


def test_the_working_directory_has_a_name_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_files(tmp_path / "flowers", numbered({"rose": 2, "tulip": 2}))
    monkeypatch.chdir(tmp_path / "flowers")
    assert find_domains(".") == [Place("flowers", ".", "flowers")]


def test_a_folder_without_anything_is_refused(tmp_path: Path) -> None:
    with pytest.raises(
        DataError, match=r"holds no domain: expected <split>/<class>/<image>, <class>/<image>, or a folder"
    ):
        find_domains(tmp_path)


def test_a_folder_of_pictures_that_are_not_read_says_what_to_do(tmp_path: Path) -> None:
    write_files(tmp_path, ["cats/1.HEIC", "cats/2.heic", "dogs/3.HEIC", "notes.txt"])
    with pytest.raises(DataError, match=r"no image that can be read, but 3 \.heic files; convert them to JPEG or PNG"):
        find_domains(tmp_path)
