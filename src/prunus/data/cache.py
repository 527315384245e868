"""Decoded images on disk: made once, mapped into memory ever after.

An entry is a folder named by a hash of everything that decides its content. It is filled under a temporary name and
renamed when complete: what a killed process leaves behind is never taken for an entry, and two processes that make the
same one at once both end with a whole one. A split with unreadable images is not kept, as they may be mended.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import PIL

from prunus.arrays import Bytes
from prunus.data.sources import Source
from prunus.errors import StorageError
from prunus.files import remove_leftovers, temporary_beside, write_json
from prunus.images import Preprocess

CACHE_VERSION = 1
ROWS = "images.npy"
Fill = Callable[[Bytes], dict[int, str]]  # writes all rows it can, gives the reasons for the others


def default_cache() -> Path:
    """Give the user's cache folder, as the desktop standard has it."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "prunus"


def cache_key(source: Source, files: Sequence[str], preprocess: Preprocess) -> str:
    """Hash what decides the decoded pixels: the files, when they changed, the settings and the decoder."""
    place = str(source.path.resolve())
    digest = hashlib.sha256(
        json.dumps([CACHE_VERSION, PIL.__version__, preprocess.resize, preprocess.fit, place]).encode()
    )
    for file in files:
        digest.update(json.dumps([file, source.stamp(file)]).encode())
    return digest.hexdigest()[:32]


def cached_rows(folder: Path, key: str, shape: tuple[int, ...], fill: Fill) -> tuple[Bytes, dict[int, str]]:
    """Map the rows of an entry, made first where it is missing: the rows, and which of them are bad and why."""
    entry = folder / key
    rows = _read(entry, shape)
    if rows is not None:
        return rows, {}
    try:
        return _make(entry, shape, fill)
    except OSError as error:
        reason = error.strerror or str(error)
        raise StorageError(
            f"cannot keep decoded images in {folder}: {reason}; free some space, set XDG_CACHE_HOME to another folder, "
            f"or go without with --no-cache"
        ) from error


def cached_json(entry: Path | None, name: str, compute: Callable[[], dict[str, Any]]) -> dict[str, Any]:
    """Keep something small that was computed from an entry's rows beside them; without an entry it is just computed."""
    if entry is None:
        return compute()
    with contextlib.suppress(OSError, ValueError):
        found: dict[str, Any] = json.loads((entry / name).read_text())
        return found
    found = compute()
    with contextlib.suppress(StorageError):  # a cache that cannot be written to is still a cache
        write_json(entry / name, found)
    return found


def _read(entry: Path, shape: tuple[int, ...]) -> Bytes | None:
    try:
        rows = np.lib.format.open_memmap(entry / ROWS, mode="r")
    except (OSError, ValueError, EOFError):
        return None
    return rows if rows.shape == shape and rows.dtype == np.uint8 else None


def _make(entry: Path, shape: tuple[int, ...], fill: Fill) -> tuple[Bytes, dict[int, str]]:
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
        _publish(temporary, entry, shape)
        return rows, {}  # still mapped, whatever becomes of the name
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def _reserve(path: Path) -> None:
    """Take the space at once: writing to a mapped file with holes in it would, on a full disk, end the process."""
    with path.open("r+b") as file:
        size = os.fstat(file.fileno()).st_size
        if hasattr(os, "posix_fallocate"):
            os.posix_fallocate(file.fileno(), 0, size)


def _publish(temporary: Path, entry: Path, shape: tuple[int, ...]) -> None:
    try:
        temporary.rename(entry)
    except OSError:
        if _read(entry, shape) is None:  # not another process's whole one, which is as good, but a damaged one
            shutil.rmtree(entry, ignore_errors=True)
            temporary.rename(entry)
