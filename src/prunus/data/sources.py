"""The files of a domain, in a folder, a zip file or a program, listed and read through the same calls."""

import os
import zipfile
from pathlib import Path
from typing import Protocol

from typing_extensions import override

from prunus.config import DEMO_PREFIX, PYTHON_PREFIX
from prunus.data.own.domain import OwnDomain, Picture
from prunus.data.own.passing import passed_domain
from prunus.errors import DataError, UnknownNameError
from prunus.images import MAX_FILE_BYTES
from prunus.reading import DAMAGE, OPENING, RefusedFileError, read_file, read_member
from prunus.samples import bundled, demo_names


class Source(Protocol):
    """Files by relative name; a name that ends with a slash is an empty folder."""

    path: Path

    def names(self) -> list[str]:
        """List all files and all empty folders."""

    def read(self, name: str) -> bytes:
        """Read a file."""

    def stamp(self, name: str) -> list[int]:
        """Return numbers that change when the file does."""


class FolderSource(Source):
    """A folder on disk."""

    def __init__(self, path: Path) -> None:
        self.path = path

    @override
    def names(self) -> list[str]:
        """Follow links, but never in a circle, nor to a folder that holds this one.

        A link that is not followed is listed like a file, and a folder that cannot be read like an empty one.
        """
        names: list[str] = []
        visited: set[str] = set()
        real = self.path.resolve()
        around = {str(folder) for folder in (real, *real.parents)}
        unread: list[OSError] = []
        for folder, folders, files in os.walk(self.path, followlinks=True, onerror=unread.append):
            target = os.path.realpath(folder)
            inside = Path(folder).relative_to(self.path)
            if target in visited or (target in around and Path(folder) != self.path):
                folders.clear()
                names.append(inside.as_posix())
                continue
            visited.add(target)
            names += [(inside / file).as_posix() for file in files]
            if not folders and not files:
                names.append(f"{inside.as_posix()}/")
        names += [f"{Path(str(error.filename)).relative_to(self.path).as_posix()}/" for error in unread]
        return sorted(names)

    @override
    def read(self, name: str) -> bytes:
        try:
            return read_file(self.path / name, MAX_FILE_BYTES)
        except OSError as error:
            raise DataError(f"cannot read {self.path / name}: {error.strerror or error}") from None

    @override
    def stamp(self, name: str) -> list[int]:
        try:
            status = (self.path / name).stat()
        except OSError:
            return []
        return [status.st_size, status.st_mtime_ns, status.st_ctime_ns, status.st_ino]


class ZipSource(Source):
    """A zip file, read in place."""

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            self._zip = zipfile.ZipFile(path)
        except OPENING as error:
            raise DataError(f"{path} is not a readable zip file: {error}") from None

    @override
    def names(self) -> list[str]:
        entries = sorted(self._zip.namelist())
        followers = [*entries[1:], ""]
        # in this order, what a folder contains comes directly after it
        return [
            name
            for name, next_name in zip(entries, followers, strict=True)
            if not (name.endswith("/") and next_name.startswith(name) and next_name != name)
        ]

    @override
    def read(self, name: str) -> bytes:
        try:
            return read_member(self._zip, self._zip.getinfo(name), MAX_FILE_BYTES)
        except RefusedFileError as error:
            raise DataError(f"cannot read {name} in {self.path}: {error}") from None
        except DAMAGE as error:
            raise DataError(f"{name} in {self.path} is damaged: {error}") from None

    @override
    def stamp(self, name: str) -> list[int]:
        info = self._zip.getinfo(name)
        return [info.file_size, info.CRC]


class PythonSource(Source):
    """A domain that was passed from Python, as if its images were files in folders."""

    def __init__(self, path: Path, domain: OwnDomain) -> None:
        self.path = path
        self._domain = domain
        has_splits = len(domain.splits) > 1  # if not, a share of every class is held out, as of class folders
        self._pictures = {_file_name(picture, has_splits): picture for picture in domain.pictures}

    @override
    def names(self) -> list[str]:
        return sorted(self._pictures)

    @override
    def read(self, name: str) -> bytes:
        picture = self._pictures[name]
        return self._domain.read(picture.split, picture.index)

    @override
    def stamp(self, name: str) -> list[int]:
        return [*self._pictures[name].digest]


def _file_name(picture: Picture, has_splits: bool) -> str:
    return "/".join([*([picture.split] if has_splits else []), picture.label, picture.file])


def describe_folder(folder: Path) -> str:
    """Say what a folder holds, for errors about what is missing in it."""
    if not folder.is_dir():
        return f"there is no folder {folder}"
    inside = sorted(entry.name for entry in folder.iterdir())
    more = f" and {len(inside) - 8} more" if len(inside) > 8 else ""
    return f"it holds {', '.join(inside[:8]) or 'nothing'}{more}"


def open_source(path: str | Path) -> Source:
    """Open a folder, a zip file, a bundled domain (`demo:fashion`) or one that was passed (`python:cars`)."""
    text = str(path)
    if text.startswith(PYTHON_PREFIX):
        return PythonSource(Path(text), passed_domain(text.removeprefix(PYTHON_PREFIX)))
    if text.startswith(DEMO_PREFIX):
        name = text.removeprefix(DEMO_PREFIX)
        if name not in demo_names():
            raise UnknownNameError("demo domain", name, demo_names())
        return ZipSource(bundled("domains") / f"{name}.zip")
    path = Path(path)
    if path.is_dir():
        return FolderSource(path)
    if path.is_file():
        return ZipSource(path)
    if path.exists():
        raise DataError(f"{path} is neither a folder nor a regular file; a domain is a folder or a zip file")
    parent = path.parent
    neighbours = [entry.name for entry in parent.iterdir() if _may_hold_images(entry)] if parent.is_dir() else []
    if neighbours:
        inside = "" if parent == Path() else f" in {parent}"
        raise UnknownNameError(f"folder or zip file{inside}", path.name, sorted(neighbours))
    raise DataError(f"there is no folder or zip file {path}")


def _may_hold_images(entry: Path) -> bool:
    return not entry.name.startswith(".") and (entry.is_dir() or entry.suffix.lower() == ".zip")
