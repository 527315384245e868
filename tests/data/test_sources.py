from __future__ import annotations

import os
import tracemalloc
import zipfile
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from prunus.data import sources
from prunus.data.sources import FolderSource, ZipSource, open_source
from prunus.errors import DataError, UnknownNameError
from prunus.samples import demo_names
from tests.makers.hostile_files import NOT_REGULAR, set_central, write_liar


def test_a_folder_and_its_zip_list_and_read_the_same(
    make_domain: Callable[..., Path], make_zip: Callable[[Path], Path]
) -> None:
    folder = make_domain()
    (folder / "train" / "empty").mkdir()
    loose, packed = open_source(folder), open_source(make_zip(folder))
    assert isinstance(loose, FolderSource)
    assert isinstance(packed, ZipSource)
    assert loose.names() == packed.names()
    assert "train/empty/" in loose.names()
    assert "train/a/0.png" in loose.names()
    assert len(loose.names()) == 2 * (4 + 2) + 1
    assert loose.read("train/a/0.png") == packed.read("train/a/0.png") == (folder / "train/a/0.png").read_bytes()


def test_a_class_folder_that_is_a_link_is_listed_like_any_other(make_domain: Callable[..., Path]) -> None:
    folder = make_domain()
    expected = open_source(folder).names()
    (folder / "train" / "a").rename(folder.parent / "elsewhere")
    (folder / "train" / "a").symlink_to(folder.parent / "elsewhere")
    assert open_source(folder).names() == expected


@pytest.mark.parametrize("target", ["/", "..", ".", "../.."])
def test_a_link_to_a_folder_that_holds_this_one_is_not_followed(make_domain: Callable[..., Path], target: str) -> None:
    folder = make_domain()
    before = open_source(folder).names()
    (folder / "train" / "a" / "all").symlink_to(target if target == "/" else folder / target)
    assert open_source(folder).names() == sorted([*before, "train/a/all"])


def test_a_folder_that_two_links_name_is_listed_once(make_domain: Callable[..., Path]) -> None:
    folder = make_domain()
    (folder / "train" / "c").symlink_to(folder / "train" / "a")
    names = open_source(folder).names()
    assert {"train/a/0.png", "train/c"} <= set(names) or {"train/c/0.png", "train/a"} <= set(names)


def test_a_folder_that_cannot_be_listed_is_not_lost(
    make_domain: Callable[..., Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = make_domain()
    scan = os.scandir

    def refuse(path: str) -> object:
        if Path(path).name == "b":
            raise PermissionError(13, "Permission denied", str(path))
        return scan(path)

    monkeypatch.setattr(os, "scandir", refuse)
    assert {"train/b/", "test/b/", "train/a/0.png"} <= set(open_source(folder).names())


def test_threads_that_read_one_zip_get_the_right_bytes(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "x.zip", "w", zipfile.ZIP_DEFLATED) as file:
        for index in range(50):
            file.writestr(f"{index}", bytes([index]) * 5000)
    source = open_source(tmp_path / "x.zip")
    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(lambda index: source.read(f"{index}"), range(50)))
    assert found == [bytes([index]) * 5000 for index in range(50)]


def test_a_zip_lists_its_files_and_its_empty_folders(tmp_path: Path) -> None:
    path = tmp_path / "x.zip"
    names = ["b/", "b/c/", "b/c/1.png", "b/d/", "b-e/2.png", "b.png", "empty/", "a/b/c/3.png"]
    with zipfile.ZipFile(path, "w") as file:
        for name in names:
            file.writestr(name, b"")
    assert ZipSource(path).names() == ["a/b/c/3.png", "b-e/2.png", "b.png", "b/c/1.png", "b/d/", "empty/"]


def test_listing_a_zip_takes_no_more_memory_than_its_names(tmp_path: Path) -> None:
    path = tmp_path / "x.zip"
    with zipfile.ZipFile(path, "w") as file:
        file.writestr("a/" * 30_000 + "x.png", b"")
    source = ZipSource(path)
    tracemalloc.start()
    try:
        assert len(source.names()) == 1
        assert tracemalloc.get_traced_memory()[1] < 1_000_000
    finally:
        tracemalloc.stop()


def test_a_file_that_is_no_zip_is_refused(tmp_path: Path) -> None:
    (tmp_path / "x.zip").write_text("no zip")
    with pytest.raises(DataError, match=r"x\.zip is not a readable zip file"):
        open_source(tmp_path / "x.zip")


@pytest.mark.parametrize("compression", [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
def test_a_damaged_member_is_refused_by_its_name(tmp_path: Path, compression: int) -> None:
    path = tmp_path / "x.zip"
    with zipfile.ZipFile(path, "w", compression) as file:
        file.writestr("train/a/x.png", bytes(range(256)) * 20)
        start = file.start_dir
    content = bytearray(path.read_bytes())
    first = content.index(b"x.png") + len(b"x.png")
    content[first:start] = b"\xff" * (start - first)
    path.write_bytes(content)
    with pytest.raises(DataError, match=r"train/a/x\.png in .*x\.zip is damaged"):
        open_source(path).read("train/a/x.png")


def test_a_member_that_claims_to_be_giant_is_refused_unread(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with zipfile.ZipFile(tmp_path / "x.zip", "w") as file:
        file.writestr("big", b"x" * 101)
        file.writestr("small", b"x" * 100)
    monkeypatch.setattr(sources, "MAX_FILE_BYTES", 100)
    source = open_source(tmp_path / "x.zip")
    assert source.read("small") == b"x" * 100
    with pytest.raises(DataError, match=r"big in .* claims 101 bytes; at most 100 are read"):
        source.read("big")


@pytest.mark.parametrize("compression", [zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2])
def test_a_member_that_lies_about_its_size_is_refused_before_it_is_inflated(tmp_path: Path, compression: int) -> None:
    source = open_source(write_liar(tmp_path / "x.zip", compression, claim=1000))
    tracemalloc.start()
    with pytest.raises(DataError, match=r"read train/a/x\.png in .*x\.zip: it claims 1,000 bytes, but holds more"):
        source.read("train/a/x.png")
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 4 * 2**20


@pytest.mark.parametrize(("offset", "value", "reason"), [(8, 1, "it is encrypted"), (10, 9, r"9 \(Deflate64\)")])
def test_an_odd_member_is_refused_in_words(tmp_path: Path, offset: int, value: int, reason: str) -> None:
    with zipfile.ZipFile(tmp_path / "x.zip", "w") as file:
        file.writestr("x", b"content")
    with pytest.raises(DataError, match=f"cannot read x in .*{reason}.*; pack it again"):
        open_source(set_central(tmp_path / "x.zip", offset, value)).read("x")


def test_a_zip_whose_names_are_not_what_it_says_is_refused(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "x.zip", "w") as file:
        file.writestr("é", b"content")
    content = (tmp_path / "x.zip").read_bytes()
    (tmp_path / "x.zip").write_bytes(content.replace("é".encode(), b"\xff\xff"))
    with pytest.raises(DataError, match=r"x\.zip is not a readable zip file: .*utf-8"):
        open_source(tmp_path / "x.zip")


@pytest.mark.parametrize("kind", [kind for kind in NOT_REGULAR if kind != "a folder"])
def test_what_is_no_regular_file_is_listed_but_not_read(tmp_path: Path, kind: str) -> None:
    NOT_REGULAR[kind](tmp_path / "x.jpg")
    source = open_source(tmp_path)
    assert source.names() == ["x.jpg"]
    with pytest.raises(DataError, match=rf"cannot read .*x\.jpg: it is {kind}, not a regular file"):
        source.read("x.jpg")


def test_a_file_of_a_folder_is_read_up_to_the_limit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "x.jpg").write_bytes(bytes(101))
    monkeypatch.setattr(sources, "MAX_FILE_BYTES", 100)
    with pytest.raises(DataError, match=r"x\.jpg: it has 101 bytes; at most 100 are read"):
        open_source(tmp_path).read("x.jpg")


def test_a_named_pipe_is_no_domain(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "x.zip")
    with pytest.raises(DataError, match=r"x\.zip is neither a folder nor a regular file"):
        open_source(tmp_path / "x.zip")


def test_a_missing_path_lists_its_neighbours_and_names_the_nearest(tmp_path: Path) -> None:
    for name in ("flowers", "signs", ".hidden"):
        (tmp_path / name).mkdir()
    with pytest.raises(UnknownNameError) as caught:
        open_source(tmp_path / "flower")
    assert "'flower'; did you mean 'flowers'? known: flowers, signs" in str(caught.value)
    assert ".hidden" not in str(caught.value)


def test_only_what_may_hold_images_is_offered(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("recipe.toml", "model.prunus", "signs.zip"):
        (tmp_path / name).touch()
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UnknownNameError, match=r"^unknown folder or zip file 'flowers'; known: signs\.zip$"):
        open_source("flowers")
    (tmp_path / "signs.zip").unlink()
    with pytest.raises(DataError, match=r"^there is no folder or zip file flowers$"):
        open_source("flowers")


def test_the_nearest_neighbour_is_named_even_among_very_many(tmp_path: Path) -> None:
    for name in [*(f"a{index}" for index in range(30)), "zebras"]:
        (tmp_path / name).mkdir()
    with pytest.raises(UnknownNameError, match="did you mean 'zebras'"):
        open_source(tmp_path / "zebra")


def test_a_path_without_neighbours_is_said_to_be_missing(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"there is no folder or zip file .*nothing"):
        open_source(tmp_path / "no" / "nothing")


def test_an_unknown_demo_domain_is_refused_with_the_nearest() -> None:
    with pytest.raises(UnknownNameError, match=r"unknown demo domain 'fasion'; did you mean 'fashion'\?"):
        open_source("demo:fasion")


@pytest.mark.parametrize("name", ["characters", "clothing", "fashion", "fruits", "signs"])
def test_every_demo_domain_has_images_to_train_and_test_on(name: str) -> None:
    assert name in demo_names()
    names = open_source(f"demo:{name}").names()
    assert any(file.startswith("train/") for file in names)
    assert any(file.startswith("test/") for file in names)
