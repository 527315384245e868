"""Folders of images as people have them, by the names of their files."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from PIL import Image

PALETTE = ("red", "green", "blue", "yellow", "purple", "orange", "black", "grey", "brown", "pink")


def write_files(root: Path, names: Sequence[str]) -> Path:
    """Write a small image for every name of an image, an empty folder for a name with a slash at its end, or text."""
    for number, name in enumerate(names):
        path = root / name
        if name.endswith("/"):
            path.mkdir(parents=True, exist_ok=True)
            continue
        path.parent.mkdir(parents=True, exist_ok=True)
        if path.suffix.lower() in {".png", ".jpg", ".gif", ".tif", ".tiff", ".webp", ".bmp"}:
            Image.new("RGB", (8, 8 + number % 7), PALETTE[number % len(PALETTE)]).save(path)
        else:
            path.write_text("text")
    return root


def numbered(folders: Mapping[str, int], ending: str = ".png") -> list[str]:
    """Return names of so many images in every folder."""
    return [f"{folder}/{index}{ending}" for folder, images in folders.items() for index in range(images)]
