"""Refuse, before any work is done, paths where a page, card or figure cannot be written."""

from pathlib import Path

from prunus.errors import StorageError


def check_file(path: Path, example: str) -> None:
    """Refuse a file path that is a folder or lies inside a file.

    Args:
        example: a valid file name, shown in the error.
    """
    if path.is_dir():
        raise StorageError(f"cannot write {path}: it is a folder; name a file in it, such as {path / example}")
    check_folder(path.parent)


def check_folder(path: Path) -> None:
    """Refuse a folder path that is a file or lies inside one."""
    file = next((parent for parent in (path, *path.parents) if parent.is_file()), None)
    if file:
        raise StorageError(f"cannot write into {path}: {file} is a file; choose another folder, or move the file")
