"""Write files so that a crash, a kill or a full disk never leaves half of one."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
from collections.abc import Mapping
from pathlib import Path

from prunus.errors import StorageError


def write_atomically(path: Path, content: bytes) -> None:
    """Write to a temporary neighbour, flush it to the disk and rename it over `path`."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with temporary.open("wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    except OSError as error:
        raise storage_error(path, error) from error
    finally:
        with contextlib.suppress(OSError):  # after the rename it is gone; before, the folder may be what is wrong
            temporary.unlink()


def remove_leftovers(folder: Path) -> None:
    """Remove temporary files and folders of processes that no longer live: their names end in .<pid>.tmp."""
    for leftover in folder.glob(".*.tmp"):
        with contextlib.suppress(ValueError, IndexError, PermissionError):
            try:
                os.kill(int(leftover.suffixes[-2].removeprefix(".")), 0)
            except ProcessLookupError:
                shutil.rmtree(leftover) if leftover.is_dir() else leftover.unlink(missing_ok=True)


def storage_error(path: Path, error: OSError) -> StorageError:
    """Turn the system's error into one that says what is safe and what to do."""
    reason = error.strerror or str(error)
    return StorageError(
        f"cannot write {path}: {reason}; nothing already saved was changed: free some space or choose another folder"
    )


def write_json(path: Path, content: Mapping[str, object]) -> None:
    """Write readable JSON, atomically."""
    write_atomically(path, (json.dumps(content, indent=2, ensure_ascii=False, allow_nan=False) + "\n").encode())
