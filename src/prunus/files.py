"""Write files atomically: a crash, a kill or a full disk never leaves a partial file."""

import contextlib
import errno
import json
import os
import platform
import reprlib
import shutil
import uuid
from collections.abc import Mapping
from pathlib import Path

from prunus.errors import PrunusError, StorageError

UNSUPPORTED = (errno.EINVAL, errno.EBADF, errno.ENOTSUP)  # some file systems cannot flush a folder


def as_path(value: object, what: str) -> Path:
    """Return the path that a caller passed as text or as a path; anything else is refused with its name."""
    if not isinstance(value, (str, os.PathLike)):
        raise PrunusError(f"{what} must be a path, got {reprlib.repr(value)}")
    return Path(os.fspath(value))


def write_atomically(path: Path, content: bytes, keep: Path | None = None) -> None:
    """Write to a temporary neighbour, flush it to the disk and rename it over `path`.

    Args:
        keep: the name that the file of this name before has afterwards (default: it is removed).
    """
    temporary = temporary_beside(path)
    before = temporary_beside(keep) if keep and path.exists() else None
    try:
        _make_folder(path.parent)
        with temporary.open("wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        if before:
            _name_also(path, before)
        temporary.replace(path)
        if before and keep:  # after the new file has its name, so that two complete files exist at any moment
            before.replace(keep)
        _sync_folder(path.parent)
    except OSError as error:
        raise storage_error(path, error) from error
    finally:
        for leftover in (temporary, before):
            with contextlib.suppress(OSError):  # gone after the rename; before it, the folder may be missing
                if leftover:
                    leftover.unlink()


def _make_folder(folder: Path) -> None:
    """Make a folder and those above it, and flush their names to the disk."""
    missing = [path for path in (folder, *folder.parents) if not path.exists()]
    folder.mkdir(parents=True, exist_ok=True)
    for path in missing:
        _sync_folder(path.parent)


def _sync_folder(folder: Path) -> None:
    """Flush the names in a folder to the disk, where the system can: a rename alone may be lost in a power cut."""
    if os.name == "nt":
        return
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    except OSError as error:
        if error.errno not in UNSUPPORTED:
            raise
    finally:
        os.close(descriptor)


def _name_also(path: Path, other: Path) -> None:
    """Link a second name to a file, or copy the file where links are not supported."""
    try:
        other.hardlink_to(path)
    except OSError:
        shutil.copyfile(path, other)


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
