"""Find the domains in a folder, and name them."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from prunus.amounts import plural
from prunus.config import DEMO_PREFIX
from prunus.data.folders.listing import TEST_SHARE
from prunus.data.folders.structure import UNREAD, WRAPPERS, Entry, Structure, is_leftover, understand, visible
from prunus.data.sources import open_source
from prunus.errors import DataError
from prunus.names import domain_name, name_problem


@dataclass(frozen=True)
class Place:
    """A domain on disk.

    Args:
        name: its name in recipes and model files.
        folder: the name of its folder or zip file.
        has_images: False for a folder beside other domains that holds no image.
        test_share: of class folders without splits, as in a recipe.
        split_seed: of class folders without splits, as in a recipe.
        skips_bad: whether training skips images that cannot be read.
    """

    name: str
    path: str
    folder: str
    has_images: bool = True
    test_share: float = TEST_SHARE
    split_seed: int = 0
    skips_bad: bool = False


def find_domains(path: str | Path) -> list[Place]:
    """Find the domain at a path, or the domains in a folder."""
    root = Path(path)
    source = open_source(path)
    entries = visible(source.names())
    structure = understand(entries)
    if structure.kind != "splits" and (root / "annotations").is_dir() and (root / "data").is_dir():
        raise DataError(f"{path} looks like the Visual Decathlon; check it with the argument benchmark='decathlon'")
    if structure.kind == "domains" and root.is_dir():
        return _several(root, structure)
    if structure.kind == "nothing":
        _refuse_unread(path, entries)
    folders = [entry for entry in structure.folders if not is_leftover(entry)]
    if structure.kind == "nothing" and root.is_dir() and not folders:
        raise DataError(
            f"{path} holds no domain: expected <split>/<class>/<image>, <class>/<image>, or a folder of such folders "
            "or zip files"
        )
    if structure.kind == "nothing" and root.is_dir():
        return [_place(root / folder, has_images=False) for folder in folders]
    if str(path).startswith(DEMO_PREFIX):
        return [Place(str(path).removeprefix(DEMO_PREFIX), str(path), str(path))]
    return [_place(_named(root, structure.inside), path)]


def _refuse_unread(path: str | Path, entries: Sequence[Entry]) -> None:
    """Say where all pictures have to be converted, as those of a phone."""
    endings = [PurePosixPath(entry.file).suffix.lower() for entry in entries if entry.file]
    unread = [ending for ending in endings if ending in UNREAD]
    if unread:
        files = plural(len(unread), f"{unread[0]} file")
        raise DataError(f"{path} holds no image that can be read, but {files}; convert them to JPEG or PNG")


def _several(root: Path, structure: Structure) -> list[Place]:
    around = root.joinpath(*structure.inside)
    unpacked = set(structure.folders)
    names = [name for name in structure.folders if not (name.endswith(".zip") and name[: -len(".zip")] in unpacked)]
    return [_place(around / name, has_images=name in structure.filled) for name in names]


def _place(folder: Path, path: str | Path | None = None, has_images: bool = True) -> Place:
    real = folder.resolve().name if folder.name in ("", "..") else folder.name
    name = real if name_problem(real) or not domain_name(real) else domain_name(real)
    inside = path is not None and folder != Path(path)
    return Place(name, str(folder if path is None or inside else path), real, has_images)


def _named(root: Path, inside: Sequence[str]) -> Path:
    """Return the folder that a domain is called after: the innermost one whose name says what it holds."""
    folders = [root, *(root.joinpath(*inside[: depth + 1]) for depth in range(len(inside)))]
    telling = [folder for folder in folders if folder.name.lower() not in WRAPPERS and folder.is_dir()]
    return telling[-1] if telling else root
