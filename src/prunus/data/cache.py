"""Decoded images on disk: decoded once, then mapped into memory.

An entry is a folder named by a hash of everything that decides its content. It is filled under a temporary name and
renamed when complete. A killed process therefore never leaves a partial entry, and two processes that write the same
entry at once both end with a complete one. A split with unreadable images is not cached, because they may be fixed.
An entry holds a checksum of its rows, which every reader checks. Damaged entries are written again.
"""

import contextlib
import hashlib
import json
import os
import shutil
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

import numpy as np
import PIL
from pydantic import BaseModel

from prunus.arrays import Bytes
from prunus.data.sources import Source
from prunus.errors import StorageError
from prunus.files import remove_leftovers, temporary_beside, write_atomically
from prunus.images import Preprocess

CACHE_VERSION = 1
ROWS = "images.npy"
CHECKSUM = "images.sha256"
HASHED_BYTES = 1 << 24  # at a time, by each thread
Fill = Callable[[Bytes], dict[int, str]]  # writes the rows it can, returns the reasons for the others
Model = TypeVar("Model", bound=BaseModel)


def default_cache() -> Path:
    """Return the user's cache folder: `$XDG_CACHE_HOME/prunus`, or `~/.cache/prunus`."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "prunus"


def cache_key(source: Source, files: Sequence[str], preprocess: Preprocess) -> str:
    """Hash what decides the decoded pixels: the files, when they changed, the settings and the decoder."""
    path = str(source.path.resolve())
    settings = [CACHE_VERSION, PIL.__version__, preprocess.resize, preprocess.fit, path]
    digest = hashlib.sha256(json.dumps(settings).encode())
    for file in files:
        digest.update(json.dumps([file, source.stamp(file)]).encode())
    return digest.hexdigest()[:32]


@dataclass(frozen=True)
class CachedRows:
    """Decoded images: the reasons for rows that could not be decoded, and whether an entry was damaged before."""

    rows: Bytes
    bad: dict[int, str]
    was_damaged: bool


def cached_rows(folder: Path, key: str, shape: tuple[int, ...], fill: Fill) -> CachedRows:
    """Map an entry's rows, writing the entry first if it is missing or damaged."""
    entry = folder / key
    rows = _read(entry, shape)
    if rows is not None:
        return CachedRows(rows, {}, False)
    was_damaged = (entry / CHECKSUM).exists()  # earlier versions wrote none
    try:
        return CachedRows(*_write(entry, shape, fill), was_damaged)
    except OSError as error:
        raise StorageError(
            f"cannot cache decoded images in {folder}: {error.strerror or error}; free some space, set XDG_CACHE_HOME "
            f"to another folder, or turn the cache off with the argument use_cache=False"
        ) from error


def cached_model(entry: Path | None, name: str, model: type[Model], compute: Callable[[], Model]) -> Model:
    """Read what was computed from an entry's rows, or compute it and keep it beside them."""
    if entry is None:
        return compute()
    with contextlib.suppress(OSError, ValueError):
        checksum, _, stored = (entry / name).read_bytes().partition(b"\n")
        if checksum == _hash(stored):
            return model.model_validate_json(stored)
    content = compute()
    with contextlib.suppress(StorageError):  # a read-only cache still works
        text = content.model_dump_json().encode()
        write_atomically(entry / name, _hash(text) + b"\n" + text)
    return content


def _hash(content: bytes) -> bytes:
    return hashlib.sha256(content).hexdigest().encode()


def _read(entry: Path, shape: tuple[int, ...]) -> Bytes | None:
    try:
        rows = np.lib.format.open_memmap(entry / ROWS, mode="r")
        expected = (entry / CHECKSUM).read_text(encoding="ascii")
    except (OSError, ValueError, EOFError):
        return None
    is_whole = rows.shape == shape and rows.dtype == np.uint8 and _checksum(rows) == expected
    return rows if is_whole else None


def _checksum(rows: Bytes) -> str:
    """Hash the rows in several threads, part by part."""
    size = max(1, HASHED_BYTES // max(1, rows[:1].nbytes))
    with ThreadPoolExecutor(max_workers=os.cpu_count()) as pool:
        parts = pool.map(
            lambda start: hashlib.sha256(np.ascontiguousarray(rows[start : start + size]).data).digest(),
            range(0, len(rows), size),
        )
        return hashlib.sha256(b"".join(parts)).hexdigest()


def _write(entry: Path, shape: tuple[int, ...], fill: Fill) -> tuple[Bytes, dict[int, str]]:
    entry.parent.mkdir(parents=True, exist_ok=True)
    remove_leftovers(entry.parent)
    temporary = temporary_beside(entry)
    temporary.mkdir()
    try:
        rows = np.lib.format.open_memmap(temporary / ROWS, mode="w+", dtype=np.uint8, shape=shape)
        _reserve(temporary / ROWS)
        bad = fill(rows)
        if bad:
            return np.array(rows), bad
        rows.flush()
        (temporary / CHECKSUM).write_text(_checksum(rows), encoding="ascii")
        _publish(temporary, entry, shape)
        return rows, {}  # stays mapped even if the name disappears
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def _reserve(path: Path) -> None:
    """Allocate the space at once: on a full disk, writing to a mapped file with holes would kill the process."""
    with path.open("r+b") as file:
        size = os.fstat(file.fileno()).st_size
        if hasattr(os, "posix_fallocate"):
            os.posix_fallocate(file.fileno(), 0, size)


def _publish(temporary: Path, entry: Path, shape: tuple[int, ...]) -> None:
    try:
        temporary.rename(entry)
    except OSError:
        if _read(entry, shape) is None:  # a damaged entry; a complete one of another process is kept
            shutil.rmtree(entry, ignore_errors=True)
            temporary.rename(entry)
