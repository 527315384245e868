"""Decoded images on disk: made once, mapped into memory ever after.

An entry is a folder named by a hash of everything that decides its content. It is filled under a temporary name and
renamed when complete: what a killed process leaves behind is never taken for an entry, and two processes that make the
same one at once both end with a whole one.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import PIL

from prunus.data.sources import Source
from prunus.files import remove_leftovers, storage_error, write_json
from prunus.images import Bytes, Preprocess

CACHE_VERSION = 1
Fill = Callable[[Bytes], dict[int, str]]  # writes all rows it can, gives the reasons for the others


def default_cache() -> Path:
    """Give the user's cache folder, as the desktop standard has it."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "prunus"


def cache_key(source: Source, files: Sequence[str], preprocess: Preprocess) -> str:
    """Hash what decides the decoded pixels: the files, when they changed, the settings and the decoder."""
    digest = hashlib.sha256()
    digest.update(json.dumps([CACHE_VERSION, PIL.__version__, preprocess.resize, preprocess.fit]).encode())
    for file in files:
        digest.update(json.dumps([file, source.stamp(file)]).encode())
    return digest.hexdigest()[:32]


def cached_rows(folder: Path, key: str, shape: tuple[int, ...], fill: Fill) -> tuple[Bytes, dict[int, str]]:
    """Map the rows of an entry, made first where it is missing: the rows, and which of them are bad and why."""
    entry = folder / key
    found = _read(entry, shape)
    if found is None:
        try:
            _make(entry, shape, fill)
        except OSError as error:
            raise storage_error(entry, error) from error
        found = _read(entry, shape)
    assert found is not None, "an entry that was just made is whole"
    return found


def cached_json(entry: Path | None, name: str, compute: Callable[[], dict[str, Any]]) -> dict[str, Any]:
    """Keep something small that was computed from an entry's rows beside them; without an entry it is just computed."""
    if entry is None:
        return compute()
    try:
        found: dict[str, Any] = json.loads((entry / name).read_text())
    except (OSError, ValueError):
        found = compute()
        write_json(entry / name, found)
    return found


def _read(entry: Path, shape: tuple[int, ...]) -> tuple[Bytes, dict[int, str]] | None:
    try:
        bad = json.loads((entry / "bad.json").read_text())
        rows = np.lib.format.open_memmap(entry / "images.npy", mode="r")
    except (OSError, ValueError):
        return None
    if rows.shape != shape or rows.dtype != np.uint8:
        return None
    return rows, {int(row): reason for row, reason in bad.items()}


def _make(entry: Path, shape: tuple[int, ...], fill: Fill) -> None:
    entry.parent.mkdir(parents=True, exist_ok=True)
    remove_leftovers(entry.parent)
    temporary = entry.with_name(f".{entry.name}.{os.getpid()}.tmp")
    temporary.mkdir()
    try:
        rows = np.lib.format.open_memmap(temporary / "images.npy", mode="w+", dtype=np.uint8, shape=shape)
        with (temporary / "images.npy").open("r+b") as file:
            # a mapped file with holes in it would end the process, not raise, on a full disk
            os.posix_fallocate(file.fileno(), 0, os.fstat(file.fileno()).st_size)
        bad = fill(rows)
        rows.flush()
        del rows
        write_json(temporary / "bad.json", {str(row): reason for row, reason in bad.items()})
        if _read(entry, shape) is None:
            shutil.rmtree(entry, ignore_errors=True)  # a damaged entry must not stop a whole one
            _rename_unless_there(temporary, entry)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def _rename_unless_there(temporary: Path, entry: Path) -> None:
    try:
        temporary.rename(entry)
    except OSError:
        if not entry.is_dir():  # else another process was quicker, and its entry is as good
            raise
