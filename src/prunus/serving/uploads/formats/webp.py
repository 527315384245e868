"""Decode WebP with as few copies of its pixels as Pillow allows."""

from __future__ import annotations

import mmap

from PIL import Image
from PIL.WebPImagePlugin import WebPImageFile

NO_DECODER = "could not create decoder object"  # Pillow's words for a damaged file and for too little memory alike
CANVAS_BYTES = 8  # for each pixel: Pillow's decoder allocates two canvases when a file is opened


def canvas_pixels(content: bytes) -> int:
    """Return the pixels that the header of a WebP claims; 0 for any other file."""
    if content[:4] != b"RIFF" or content[8:12] != b"WEBP":
        return 0
    kind = content[12:16]
    if kind == b"VP8X":
        return (_number(content, 24, 3) + 1) * (_number(content, 27, 3) + 1)
    if kind == b"VP8L":
        sides = _number(content, 21, 4)
        return ((sides & 0x3FFF) + 1) * ((sides >> 14 & 0x3FFF) + 1)
    return (_number(content, 26, 2) & 0x3FFF) * (_number(content, 28, 2) & 0x3FFF) if kind == b"VP8 " else 0


def lacked_memory(error: Exception, content: bytes) -> bool:
    """Return whether a WebP could not be opened because its canvases do not fit in memory, and not for its damage."""
    if str(error) != NO_DECODER:
        return False
    try:
        mmap.mmap(-1, max(1, CANVAS_BYTES * canvas_pixels(content))).close()  # takes addresses, but no memory
    except OSError:
        return True
    return False


def decode_webp(picture: WebPImageFile) -> Image.Image:
    """Return the first frame of a file that was only opened, and release its decoder, which keeps two more copies."""
    pixels, *_ = picture._get_next()
    raw = picture.rawmode
    del picture._decoder
    image = Image.frombytes(picture.mode, picture.size, pixels, "raw", raw)
    image.info = picture.info
    return image


def _number(content: bytes, start: int, length: int) -> int:
    return int.from_bytes(content[start : start + length], "little")
