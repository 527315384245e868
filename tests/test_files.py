from __future__ import annotations

import errno
import json
import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from prunus.errors import StorageError
from prunus.files import write_atomically, write_json

FULL_DISK = """
import pathlib, resource, signal, sys
from prunus.errors import StorageError
from prunus.files import write_atomically
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))
try:
    write_atomically(pathlib.Path(sys.argv[1]), b"n" * 100_000)
except StorageError as error:
    print(error)
    sys.exit(7)
"""


def test_the_content_is_written_and_folders_are_made(tmp_path: Path) -> None:
    path = tmp_path / "new" / "folder" / "file.bin"
    write_atomically(path, b"\x00new")
    assert path.read_bytes() == b"\x00new"
    assert list(path.parent.iterdir()) == [path]


def test_an_existing_file_is_replaced_whole(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"a long old content")
    write_atomically(path, b"new")
    assert path.read_bytes() == b"new"


def test_the_old_content_itself_is_never_written_over(tmp_path: Path) -> None:
    path, other_name = tmp_path / "file", tmp_path / "other name of the old content"
    path.write_bytes(b"old")
    other_name.hardlink_to(path)
    write_atomically(path, b"new")
    assert (path.read_bytes(), other_name.read_bytes()) == (b"new", b"old")


def test_the_content_reaches_the_disk_before_the_name_changes_and_the_folder_after(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, seen = tmp_path / "file", []
    path.write_bytes(b"old")

    def sync(descriptor: int) -> None:
        status = os.fstat(descriptor)
        seen.append(("folder" if stat.S_ISDIR(status.st_mode) else status.st_size, path.read_bytes()))

    monkeypatch.setattr(os, "fsync", sync)
    write_atomically(path, b"newer")
    assert seen == [(5, b"old"), ("folder", b"newer")]


def test_the_names_of_new_folders_reach_the_disk_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[tuple[int, int]] = []
    monkeypatch.setattr(os, "fsync", lambda descriptor: seen.append(_inode(os.fstat(descriptor))))
    write_atomically(tmp_path / "new" / "folder" / "file", b"content")
    folders = [tmp_path, tmp_path / "new", tmp_path / "new" / "folder"]
    assert {_inode(folder.stat()) for folder in folders} <= set(seen)


def _inode(status: os.stat_result) -> tuple[int, int]:
    return status.st_dev, status.st_ino


def test_a_file_system_that_cannot_flush_a_folder_is_no_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def only_files(descriptor: int) -> None:
        if stat.S_ISDIR(os.fstat(descriptor).st_mode):
            raise OSError(errno.EINVAL, os.strerror(errno.EINVAL))

    monkeypatch.setattr(os, "fsync", only_files)
    write_atomically(tmp_path / "file", b"new")
    assert (tmp_path / "file").read_bytes() == b"new"


@pytest.mark.parametrize("has_links", [True, False])
def test_the_file_before_is_kept_under_another_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, has_links: bool
) -> None:
    def refuse(*_: object) -> None:
        raise OSError(errno.EPERM, os.strerror(errno.EPERM))

    if not has_links:
        monkeypatch.setattr(Path, "hardlink_to", refuse)
    path, before = tmp_path / "file", tmp_path / "before"
    write_atomically(path, b"first", keep=before)
    assert not before.exists()
    for content, kept in ((b"second", b"first"), (b"third", b"second")):
        write_atomically(path, content, keep=before)
        assert (path.read_bytes(), before.read_bytes()) == (content, kept)
    assert sorted(tmp_path.iterdir()) == [before, path]


def test_two_complete_files_exist_at_any_moment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path, before = tmp_path / "file", tmp_path / "before"
    path.write_bytes(b"second")
    before.write_bytes(b"first")
    seen, rename = [], Path.replace

    def watched(source: Path, target: Path) -> Path:
        renamed = rename(source, target)
        seen.append((path.read_bytes(), before.read_bytes()))
        return renamed

    monkeypatch.setattr(Path, "replace", watched)
    write_atomically(path, b"third", keep=before)
    assert seen == [(b"third", b"first"), (b"third", b"second")]


def test_a_full_disk_leaves_the_old_file_and_nothing_else(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(descriptor: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    path = tmp_path / "file"
    path.write_bytes(b"old")
    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(StorageError, match=r"cannot write .*file: No space left on device"):
        write_atomically(path, b"new")
    assert path.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [path]


def test_a_real_write_that_the_system_cuts_short_leaves_the_old_file_and_nothing_else(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"old")
    done = subprocess.run([sys.executable, "-c", FULL_DISK, path], capture_output=True, text=True, check=False)
    assert done.returncode == 7, done.stderr
    assert f"cannot write {path}: File too large" in done.stdout
    assert path.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [path]


def test_a_parent_that_is_a_file_is_a_storage_error(tmp_path: Path) -> None:
    (tmp_path / "parent").write_bytes(b"old")
    with pytest.raises(StorageError, match="cannot write"):
        write_atomically(tmp_path / "parent" / "file", b"new")
    assert (tmp_path / "parent").read_bytes() == b"old"


def test_json_is_readable_text_and_comes_back_the_same(tmp_path: Path) -> None:
    content = {"name": "Blüte", "sizes": [1, 2.5], "none": None}
    write_json(tmp_path / "x.json", content)
    text = (tmp_path / "x.json").read_text(encoding="utf-8")
    assert json.loads(text) == content
    assert "Blüte" in text
    assert text.endswith("}\n")


def test_json_with_a_number_that_is_none_is_refused_and_the_old_file_stays(tmp_path: Path) -> None:
    (tmp_path / "x.json").write_text("{}")
    with pytest.raises(ValueError, match="not JSON compliant"):
        write_json(tmp_path / "x.json", {"loss": float("nan")})
    assert (tmp_path / "x.json").read_text() == "{}"
