"""Write files so that a crash, a kill or a full disk never leaves half of one."""

from __future__ import annotations

import contextlib
import json
import os
import platform
import shutil
import uuid
from collections.abc import Mapping
from pathlib import Path

from prunus.errors import StorageError


def write_atomically(path: Path, content: bytes) -> None:
    """Write to a temporary neighbour, flush it to the disk and rename it over `path`."""
    temporary = temporary_beside(path)
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


def temporary_beside(path: Path) -> Path:
    """Name a temporary neighbour that no other thread, process or machine uses."""
    owner = f"{_host()}.{os.getpid()}.{uuid.uuid4().hex[:8]}"
    return path.with_name(f".{path.name[:100]}.{owner}.tmp")


def remove_leftovers(folder: Path) -> None:
    """Remove temporary files and folders that processes of this machine left behind when they were killed."""
    for leftover in folder.glob(f".*.{_host()}.*.*.tmp"):
        with contextlib.suppress(ValueError, OSError):
            try:
                os.kill(int(leftover.name.split(".")[-3]), 0)
            except ProcessLookupError:
                shutil.rmtree(leftover) if leftover.is_dir() else leftover.unlink()


def _host() -> str:
    return platform.node().replace(".", "-") or "host"


def storage_error(path: Path, error: OSError) -> StorageError:
    """Turn the system's error into one that says what is safe and what to do."""
    reason = error.strerror or str(error)
    return StorageError(
        f"cannot write {path}: {reason}; nothing already saved was changed: free some space or choose another folder"
    )


def write_json(path: Path, content: Mapping[str, object]) -> None:
    """Write readable JSON, atomically."""
    write_atomically(path, (json.dumps(content, indent=2, ensure_ascii=False, allow_nan=False) + "\n").encode())
