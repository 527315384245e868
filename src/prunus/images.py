"""Turn image files into arrays, with the same code for training, evaluation and serving; no torch.

Legend: N = images, R = stored side, S = input side of the network.
"""

from __future__ import annotations

import io
from collections.abc import Iterator
from pathlib import Path
from typing import Literal

import numpy as np
from PIL import Image, UnidentifiedImageError
from pydantic import BaseModel, ConfigDict, Field, model_validator

from prunus.arrays import Bytes, Floats
from prunus.errors import DataError
from prunus.reading import read_stream

SUFFIXES = frozenset({".jpg", ".jpeg", ".png", ".webp", ".bmp", ".ppm", ".pgm", ".tif", ".tiff", ".gif"})
UPLOAD_FORMATS = ("JPEG", "PNG", "WEBP", "BMP", "PPM")  # what a service reads from strangers
FORMATS = (*UPLOAD_FORMATS, "TIFF", "GIF")
SPELLED = {"WEBP": "WebP"}  # Pillow's name of a format -> its name, where they differ
TIFF_STARTS = (b"II*\0", b"MM\0*", b"II+\0", b"MM\0+")
CROP_COUNTS = (1, 5, 10)
MAX_FILE_BYTES = 256 * 2**20  # no photograph's file is larger
TILE_PIXELS = 250_000  # converted at a time
MAX_PIXELS = 64_000_000  # far above any photograph, far below a decompression bomb
TURNS = {  # EXIF orientation -> the transposition that turns the image upright
    2: Image.Transpose.FLIP_LEFT_RIGHT,
    3: Image.Transpose.ROTATE_180,
    4: Image.Transpose.FLIP_TOP_BOTTOM,
    5: Image.Transpose.TRANSPOSE,
    6: Image.Transpose.ROTATE_270,
    7: Image.Transpose.TRANSVERSE,
    8: Image.Transpose.ROTATE_90,
}
SIDEWAYS = (TURNS[5], TURNS[6], TURNS[7], TURNS[8])  # rows become columns
LAST_ROW_FIRST = (TURNS[3], TURNS[4], TURNS[6], TURNS[7])
LAST_COLUMN_FIRST = (TURNS[2], TURNS[3], TURNS[7], TURNS[8])


class Preprocess(BaseModel):
    """How an image is prepared for the network; stored in the model file."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    size: int = Field(ge=1, le=4096)
    resize: int = Field(ge=1, le=4096)
    fit: Literal["crop", "squash"] = "crop"
    mean: tuple[float, float, float]
    std: tuple[float, float, float]

    @model_validator(mode="after")
    def _crop_fits(self) -> Preprocess:
        if self.resize < self.size:
            raise ValueError(f"resize must be at least size ({self.size}), got {self.resize}")
        return self

    def store(self, image: Image.Image) -> Bytes:
        """Resize an image to the stored square, before any crop: (3, R, R)."""
        return np.ascontiguousarray(np.asarray(_to_square(image, self.resize, self.fit)).transpose(2, 0, 1))

    def crop(self, images_NRR: Bytes, top: int, left: int, mirror: bool) -> Bytes:
        """Cut one window out of stored images: (N, 3, S, S)."""
        window = images_NRR[..., top : top + self.size, left : left + self.size]
        return window[..., ::-1] if mirror else window

    def normalize(self, images_NSS: Bytes) -> Floats:
        """Scale bytes to the range the network was trained on."""
        mean, std = (np.asarray(v, dtype=np.float32).reshape(3, 1, 1) for v in (self.mean, self.std))
        scaled: Floats = (images_NSS.astype(np.float32) / np.float32(255) - mean) / std
        return scaled


def crop_windows(resize: int, size: int, count: int) -> list[tuple[int, int, bool]]:
    """List the test crops as (top, left, mirrored): the centre, then four corners, then all five mirrored."""
    margin = resize - size
    corners = [(margin // 2, margin // 2), (0, 0), (0, margin), (margin, 0), (margin, margin)]
    if count not in CROP_COUNTS:
        raise DataError(f"crops must be one of {', '.join(map(str, CROP_COUNTS))}, got {count}")
    table = {1: [(0, False)], 5: [(i, False) for i in range(5)], 10: [(i % 5, i >= 5) for i in range(10)]}
    return [(*corners[i], mirrored) for i, mirrored in table[count]]


def read_image(source: Path | bytes | Image.Image, name: str = "") -> Image.Image:
    """Decode an image, or the first one of an animation or of several pages, to RGB.

    Grey, palette, alpha (on white), CMYK and 16-bit images are converted.
    """
    label = name or (str(source) if isinstance(source, Path) else "the image")
    try:
        image = source if isinstance(source, Image.Image) else _open(source)
        if image.width * image.height > MAX_PIXELS:
            raise ValueError(f"it has {image.width} x {image.height} pixels; at most {MAX_PIXELS:,} are read")
        if image.format == "TIFF":
            image.load()  # Pillow turns a TIFF upright itself, and only then removes its orientation
        return _to_rgb(image, TURNS.get(_orientation(image)))
    except FileNotFoundError:
        raise DataError(f"there is no image {label}") from None
    except Exception as error:  # Pillow's decoders raise almost anything on damaged files
        raise DataError(f"cannot read {label}: {_reason(error)}") from error


def image_size(content: bytes) -> tuple[int, int]:
    """Return width and height of an image from its header."""
    try:
        return _open(content).size
    except Exception as error:  # Pillow's readers raise almost anything on damaged files
        raise DataError(f"cannot read the image: {_reason(error)}") from error


def is_turned(image: Image.Image) -> bool:
    """Return whether an image is turned upright when it is decoded."""
    return _orientation(image) in TURNS


def image_mode(content: bytes) -> str:
    """Return Pillow's name for the colours of a readable image: RGB, L, CMYK, I;16, ..."""
    return _open(content).mode


def _open(source: Path | bytes) -> Image.Image:
    content = source if isinstance(source, bytes) else _content(source)
    if not content:
        raise ValueError("it is empty (0 bytes)")
    try:
        return Image.open(io.BytesIO(content), formats=FORMATS)  # reads the header; pixels are decoded on first use
    except UnidentifiedImageError:
        if content.startswith(TIFF_STARTS):
            raise ValueError("it is a TIFF of an unusual kind, such as 16 bits per colour; save it as PNG") from None
        raise


def _content(path: Path) -> bytes:
    with path.open("rb") as file:  # may be a pipe that the user named
        return read_stream(file, MAX_FILE_BYTES)


def _orientation(image: Image.Image) -> int:
    """Read how the camera was held; Pillow's own function fails on any damaged entry of the EXIF block."""
    try:
        return int(image.getexif().get(0x0112, 1))
    except Exception:  # a damaged block raises almost anything, and the pixels may still be good
        return 1


def _reason(error: Exception) -> str:
    if isinstance(error, UnidentifiedImageError):
        return f"it is none of {', '.join(SPELLED.get(name, name) for name in FORMATS)}"
    return str(error) or type(error).__name__


def _to_rgb(image: Image.Image, turn: Image.Transpose | None) -> Image.Image:
    """Convert an image in tiles and turn it upright: the steps between need several times its memory."""
    if image.mode == "F":
        raise ValueError("its pixels are floating-point numbers, which have no fixed range; save it as PNG")
    if image.width * image.height <= TILE_PIXELS:
        return _turned(_tile_to_rgb(image), turn)
    image.load()
    if image.mode == "RGB" and "transparency" not in image.info:
        return _turned(image, turn)
    whole = Image.new("RGB", (image.height, image.width) if turn in SIDEWAYS else image.size)
    for left, top, right, bottom in _tiles(image.width, image.height):
        tile = _tile_to_rgb(image.crop((left, top, right, bottom)))
        column = image.width - right if turn in LAST_COLUMN_FIRST else left
        row = image.height - bottom if turn in LAST_ROW_FIRST else top
        whole.paste(_turned(tile, turn), (row, column) if turn in SIDEWAYS else (column, row))
    return whole


def _tiles(width: int, height: int) -> Iterator[tuple[int, int, int, int]]:
    """Cut an image into boxes of at most TILE_PIXELS: whole rows, if they are not longer than that."""
    columns = min(width, TILE_PIXELS)
    rows = TILE_PIXELS // columns
    for top in range(0, height, rows):
        for left in range(0, width, columns):
            yield left, top, min(left + columns, width), min(top + rows, height)


def _turned(image: Image.Image, turn: Image.Transpose | None) -> Image.Image:
    return image if turn is None else image.transpose(turn)


def _tile_to_rgb(image: Image.Image) -> Image.Image:
    if image.mode.startswith("I"):  # 16 bits a pixel: Pillow's own conversion clips nearly everything to white
        return Image.fromarray((np.asarray(image).astype(np.int64) // 257).clip(0, 255).astype(np.uint8)).convert("RGB")
    if image.mode in ("RGBA", "LA", "PA", "La", "RGBa") or "transparency" in image.info:
        colours = image.convert("RGBA")
        return Image.alpha_composite(Image.new("RGBA", colours.size, "white"), colours).convert("RGB")
    return image.convert("RGB")


def _to_square(image: Image.Image, side: int, fit: Literal["crop", "squash"]) -> Image.Image:
    if fit == "squash":
        return image.resize((side, side), Image.Resampling.BILINEAR)
    # the box is the largest centred square: resizing and cropping are one pass
    edge = min(image.width, image.height)
    left, top = (image.width - edge) / 2, (image.height - edge) / 2
    return image.resize((side, side), Image.Resampling.BILINEAR, box=(left, top, left + edge, top + edge))
