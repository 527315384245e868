"""Refuse, before any work, places where no page, card or figure can be written."""

from __future__ import annotations

from pathlib import Path

from prunus.errors import StorageError


def check_file(path: Path, example: str) -> None:
    """Refuse a file's name that is a folder's, or that lies in a file.

    Args:
        example: a name that would do.
    """
    if path.is_dir():
        raise StorageError(f"cannot write {path}: it is a folder; name a file in it, such as {path / example}")
    check_folder(path.parent)


def check_folder(path: Path) -> None:
    """Refuse a folder whose name, or that of a folder above it, is a file's."""
    file = next((each for each in (path, *path.parents) if each.is_file()), None)
    if file:
        raise StorageError(f"cannot write into {path}: {file} is a file; name another folder, or move the file away")
