"""Write files atomically: a crash, a kill or a full disk never leaves a partial file."""

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
        with contextlib.suppress(OSError):  # gone after the rename; before it, the folder may be missing
            temporary.unlink()


def temporary_beside(path: Path) -> Path:
    """Return a temporary path beside `path` that no other thread, process or machine uses."""
    owner = f"{_host()}.{os.getpid()}.{uuid.uuid4().hex[:8]}"
    return path.with_name(f".{path.name[:100]}.{owner}.tmp")


def remove_leftovers(folder: Path) -> None:
    """Remove the temporary files and folders of killed processes of this machine."""
    for leftover in folder.glob(f".*.{_host()}.*.*.tmp"):
        with contextlib.suppress(ValueError, OSError):
            try:
                os.kill(int(leftover.name.split(".")[-3]), 0)
            except ProcessLookupError:
                shutil.rmtree(leftover) if leftover.is_dir() else leftover.unlink()


def _host() -> str:
    return platform.node().replace(".", "-") or "host"


def storage_error(path: Path, error: OSError) -> StorageError:
    """Return the error for a file that could not be written."""
    reason = error.strerror or error
    return StorageError(
        f"cannot write {path}: {reason}; existing files are unchanged; free some space or choose another folder"
    )


def write_json(path: Path, content: Mapping[str, object]) -> None:
    """Write readable JSON, atomically."""
    write_atomically(path, (json.dumps(content, indent=2, ensure_ascii=False, allow_nan=False) + "\n").encode())
