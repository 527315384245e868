"""Tell from the names of files how images are sorted: into splits, into classes, or into several domains.

A level of folders is judged by the images below it:

- `splits`: a folder called train, val or test (or a usual spelling of these) holds class folders;
- `images`: at least half of the images lie directly in it, so it is one class;
- `classes`: most of its folders are classes;
- `domains`: at least half of its folders are domains themselves, or one of them has splits;
- one folder around everything, such as `archive` or `images`, is looked through.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import PurePosixPath
from typing import Literal

from prunus.images import SUFFIXES

SPLIT_FOLDERS = {
    **dict.fromkeys(("train", "training", "train_set", "trainset", "train_data"), "train"),
    **dict.fromkeys(("val", "valid", "validation", "validate", "val_set", "dev"), "validation"),
    **dict.fromkeys(("test", "testing", "test_set", "testset", "test_data"), "test"),
}
# what computers add to folders, in lower case
LEFTOVERS = frozenset(
    {"thumbs.db", "ehthumbs.db", "desktop.ini", "$recycle.bin", "system volume information", "@eadir"}
)
# folders that say nothing about what they hold: a domain is not called after them if it can be avoided
WRAPPERS = frozenset(
    {"images", "image", "imgs", "img", "data", "dataset", "datasets", "archive", "photos", "pictures", "jpg", "jpeg"}
    | {"png", "raw", "files", "download", "downloads", "extracted", "unzipped"}
)
# endings of pictures that are not read
UNREAD = frozenset({".heic", ".heif", ".avif", ".jxl", ".jp2", ".dng", ".cr2", ".nef", ".arw", ".psd", ".svg", ".pdf"})
DEEPEST = 6  # levels that are looked at
Kind = Literal["splits", "classes", "domains", "images", "nothing"]


@dataclass(frozen=True)
class Entry:
    """A visible file, or the folder of something that is not visible, by the parts of its name."""

    parts: tuple[str, ...]
    file: str | None

    @property
    def is_image(self) -> bool:
        """Whether this is a file that should hold an image."""
        return self.file is not None and PurePosixPath(self.parts[-1]).suffix.lower() in SUFFIXES


@dataclass(frozen=True)
class Structure:
    """How images are sorted.

    Args:
        inside: the folders around everything, such as ("archive", "images").
        folders: the classes or the domains, including those without images.
        filled: those with images, and zip files.
    """

    kind: Kind
    inside: tuple[str, ...] = ()
    folders: tuple[str, ...] = ()
    filled: tuple[str, ...] = ()

    @property
    def is_class(self) -> bool:
        """Whether a folder of this structure is one class; its images may lie in a folder of their own."""
        return self.kind == "images" or (self.kind == "classes" and len(self.filled) == 1)


def split_of(folder: str) -> str | None:
    """Return the split that a folder is called after."""
    return SPLIT_FOLDERS.get(folder.lower().replace("-", "_").replace(" ", "_"))


def is_leftover(part: str) -> bool:
    """Return whether a file or folder is hidden, or was added by a computer."""
    return part.startswith((".", "__MACOSX")) or part.lower() in LEFTOVERS


def visible(names: Iterable[str]) -> list[Entry]:
    """Return what names show; of a hidden file only its folder is left, which may be an empty class."""
    entries: dict[tuple[tuple[str, ...], str | None], Entry] = {}
    for name in names:
        parts = PurePosixPath(name).parts
        shown = next((index for index, part in enumerate(parts) if is_leftover(part)), len(parts))
        file = name if shown == len(parts) and not name.endswith("/") else None
        if shown:
            entries[parts[:shown], file] = Entry(parts[:shown], file)
    return list(entries.values())


def understand(entries: Sequence[Entry], is_domain: bool = False) -> Structure:
    """Tell how images are sorted.

    Args:
        is_domain: whether this is known to be one domain, so that one folder with images holds all of it.
    """
    return _understand([(entry.parts, _kind_of(entry)) for entry in entries], DEEPEST, is_domain)


_Path = tuple[tuple[str, ...], Literal["image", "file", "folder"]]


def _kind_of(entry: Entry) -> Literal["image", "file", "folder"]:
    return "folder" if entry.file is None else "image" if entry.is_image else "file"


def _understand(paths: Sequence[_Path], levels: int, is_domain: bool = False) -> Structure:
    if any(split_of(parts[0]) and len(parts) >= (2 if kind == "folder" else 3) for parts, kind in paths):
        return Structure("splits")
    num_images = sum(kind == "image" for _, kind in paths)
    direct = sum(kind == "image" and len(parts) == 1 for parts, kind in paths)
    if num_images and (2 * direct >= num_images or not levels):
        return Structure("images")
    zips = [parts[0] for parts, kind in paths if kind == "file" and len(parts) == 1 and _is_zip(parts[0])]
    children = {name: _understand(inner, levels - 1) for name, inner in _folders(paths).items()} if levels else {}
    return _judge(children, zips, is_domain)


def _judge(children: Mapping[str, Structure], zips: Sequence[str], is_domain: bool) -> Structure:
    """Tell what a level is from what its folders are."""
    filled = {name: child for name, child in children.items() if child.kind != "nothing"}
    if not filled and not zips:
        return Structure("nothing", folders=tuple(sorted(children)))
    only = next(iter(filled)) if len(filled) == 1 else None
    is_wrapper = is_domain or (len(children) == 1 and not zips) or str(only).lower() in WRAPPERS
    if only and is_wrapper and filled[only].kind != "images":
        return replace(filled[only], inside=(only, *filled[only].inside))
    num_classes = sum(child.is_class for child in filled.values())
    num_domains = len(filled) + len(zips) - num_classes
    has_splits = any(child.kind == "splits" for child in filled.values())
    kind: Kind = "domains" if has_splits or num_domains >= num_classes else "classes"
    more = zips if kind == "domains" else ()
    return Structure(kind, (), tuple(sorted([*children, *more])), tuple(sorted([*filled, *more])))


def _folders(paths: Iterable[_Path]) -> dict[str, list[_Path]]:
    folders: dict[str, list[_Path]] = {}
    for parts, kind in paths:
        if len(parts) > 1 or kind == "folder":
            inner = folders.setdefault(parts[0], [])
            if len(parts) > 1:
                inner.append((parts[1:], kind))
    return folders


def _is_zip(name: str) -> bool:
    return name.lower().endswith(".zip")
