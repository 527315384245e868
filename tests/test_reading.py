"""Files of others: regular ones only, and no member of a zip file inflates to more than it claims."""

from __future__ import annotations

import contextlib
import os
import tracemalloc
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from prunus.reading import CHUNK_BYTES, DAMAGE, RefusedFileError, read_file, read_member
from tests.makers.hostile_files import BOMB_BYTES, NOT_REGULAR, set_central, write_liar

COMPRESSIONS = [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA]
NOISE = os.urandom(CHUNK_BYTES + 1)


def member(path: Path, limit: int = 10**9) -> bytes:
    with zipfile.ZipFile(path) as file:
        return read_member(file, file.infolist()[0], limit)


def write_zip(path: Path, content: bytes, compression: int = zipfile.ZIP_DEFLATED) -> Path:
    with zipfile.ZipFile(path, "w", compression) as file:
        file.writestr("x", content)
    return path


@pytest.mark.parametrize(("kind", "make"), NOT_REGULAR.items())
def test_only_regular_files_are_read(kind: str, make: Callable[[Path], None], tmp_path: Path) -> None:
    make(tmp_path / "x.jpg")
    with pytest.raises(RefusedFileError, match=f"it is {kind}, not a regular file"):
        read_file(tmp_path / "x.jpg", 100)


def test_a_link_to_a_regular_file_is_read(tmp_path: Path) -> None:
    (tmp_path / "real").write_bytes(b"content")
    (tmp_path / "link").symlink_to(tmp_path / "real")
    assert read_file(tmp_path / "link", 7) == b"content"


def test_a_file_is_read_up_to_the_limit(tmp_path: Path) -> None:
    (tmp_path / "x").write_bytes(bytes(100))
    assert read_file(tmp_path / "x", 100) == bytes(100)
    with pytest.raises(RefusedFileError, match="it has 100 bytes; at most 99 are read"):
        read_file(tmp_path / "x", 99)


def test_a_file_that_holds_more_than_the_system_says_is_read_up_to_the_limit() -> None:
    assert Path("/proc/self/maps").stat().st_size == 0
    with pytest.raises(RefusedFileError, match="it has more than 10 bytes"):
        read_file(Path("/proc/self/maps"), 10)


def test_a_missing_file_is_an_error_of_the_system(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        read_file(tmp_path / "none", 10)


@pytest.mark.parametrize("compression", COMPRESSIONS)
@pytest.mark.parametrize("content", [b"", b"x", NOISE, bytes(5 * CHUNK_BYTES), NOISE * 3 + bytes(10 * CHUNK_BYTES)])
def test_a_member_is_read_as_it_was_written(tmp_path: Path, compression: int, content: bytes) -> None:
    path = write_zip(tmp_path / "x.zip", content, compression)
    assert member(path, len(content)) == content


@pytest.mark.parametrize(
    ("compression", "claim"), [*((each, 1000) for each in COMPRESSIONS[1:]), (zipfile.ZIP_DEFLATED, BOMB_BYTES - 1)]
)
def test_a_member_that_inflates_to_more_than_it_claims_is_refused_before_it_has(
    tmp_path: Path, compression: int, claim: int
) -> None:
    path = write_liar(tmp_path / "x.zip", compression, claim=claim)
    tracemalloc.start()
    with pytest.raises(RefusedFileError, match=f"it claims {claim:,} bytes, but holds more"):
        member(path)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 2 * claim + 10 * 2**20  # LZMA has a dictionary of 8 MiB


def test_a_member_that_claims_more_than_is_read_is_refused(tmp_path: Path) -> None:
    path = write_zip(tmp_path / "x.zip", bytes(101))
    assert member(path, 101) == bytes(101)
    with pytest.raises(RefusedFileError, match="it claims 101 bytes; at most 100 are read"):
        member(path, 100)


def test_a_member_that_holds_less_than_it_claims_is_damaged(tmp_path: Path) -> None:
    path = set_central(write_zip(tmp_path / "x.zip", bytes(100)), 24, 101)
    with pytest.raises(zipfile.BadZipFile, match="size or checksum"):
        member(path)


def test_a_wrong_checksum_is_found(tmp_path: Path) -> None:
    path = set_central(write_zip(tmp_path / "x.zip", bytes(100)), 16, 0)
    with pytest.raises(zipfile.BadZipFile, match="size or checksum"):
        member(path)


def test_an_encrypted_member_is_refused_in_words(tmp_path: Path) -> None:
    path = set_central(write_zip(tmp_path / "x.zip", bytes(100)), 8, 1)
    with pytest.raises(RefusedFileError, match="it is encrypted; pack it again without a password"):
        member(path)


@pytest.mark.parametrize(("method", "name"), [(9, "Deflate64"), (93, "Zstandard"), (77, "unknown")])
def test_an_unknown_compression_is_refused_in_words(tmp_path: Path, method: int, name: str) -> None:
    path = set_central(write_zip(tmp_path / "x.zip", bytes(100)), 10, method)
    with pytest.raises(RefusedFileError, match=rf"its compression method is {method} \({name}\); pack it again"):
        member(path)


def test_a_dictionary_that_asks_for_gigabytes_is_refused(tmp_path: Path) -> None:
    path = write_zip(tmp_path / "x.zip", bytes(100), zipfile.ZIP_LZMA)
    content = bytearray(path.read_bytes())
    content[31 + 5 : 31 + 9] = b"\xff\xff\xff\xff"  # after the local header and the first five bytes of the data
    path.write_bytes(content)
    with pytest.raises(DAMAGE, match=r"[Mm]emory"):
        member(path)


@given(data=st.data())
def test_a_damaged_zip_is_read_right_or_refused(data: st.DataObject, tmp_path_factory: pytest.TempPathFactory) -> None:
    path = tmp_path_factory.mktemp("zip") / "x.zip"
    content = bytes(range(256)) * 3
    write_zip(path, content, data.draw(st.sampled_from(COMPRESSIONS)))
    damaged = bytearray(path.read_bytes())
    start = damaged.rindex(b"PK\x01\x02")  # zipfile itself checks the directory
    for _ in range(data.draw(st.integers(1, 4))):
        damaged[data.draw(st.integers(0, start - 1))] = data.draw(st.integers(0, 255))
    path.write_bytes(damaged)
    with contextlib.suppress(*DAMAGE):
        assert member(path) == content
