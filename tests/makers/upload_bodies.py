"""Bodies of uploads, honest and hostile."""

from __future__ import annotations

import struct
import zlib

from prunus.images import Preprocess
from prunus.serving.uploads.messages import Body, Task

TURNED = b"Exif\0\0II*\0\x08\0\0\0" + struct.pack("<HHHIHHI", 1, 0x0112, 3, 1, 6, 0, 0)  # by a quarter
PREPROCESS = Preprocess(size=8, resize=9, mean=(0.5, 0.4, 0.3), std=(0.5, 0.6, 0.7))


def form(*contents: bytes) -> bytes:
    """Return form data with files."""
    head = b'--b\r\nContent-Disposition: form-data; name="images"; filename="%d"\r\n\r\n'
    return b"".join(head % number + content + b"\r\n" for number, content in enumerate(contents)) + b"--b--\r\n"


def body(*contents: bytes, client: str = "someone") -> Body:
    return Body(form(*contents), b"b", PREPROCESS, client)


def task(
    max_pixels: int = 32_000_000, max_cost: float = 1e9, max_seconds: float = 10.0, max_memory: int = 10**12
) -> Task:
    return Task(
        boundary="b",
        preprocess=PREPROCESS,
        max_images=16,
        max_pixels=max_pixels,
        max_cost=max_cost,
        max_memory=max_memory,
        max_seconds=max_seconds,
    )


def chunk(name: bytes, content: bytes) -> bytes:
    """Return a chunk of a PNG."""
    return struct.pack(">I", len(content)) + name + content + struct.pack(">I", zlib.crc32(name + content))


def with_chunks(png: bytes, *chunks: bytes) -> bytes:
    """Put chunks after the header of a PNG."""
    return png[:33] + b"".join(chunks) + png[33:]


def flat_png(width: int, height: int, colours: int = 6) -> bytes:
    """Return a black PNG; it takes far fewer bytes than pixels."""
    channels = {2: 3, 6: 4}[colours]
    packer = zlib.compressobj(9)
    row = bytes(1 + width * channels)
    rows = b"".join(packer.compress(row) for _ in range(height)) + packer.flush()
    head = chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, colours, 0, 0, 0))
    return b"\x89PNG\r\n\x1a\n" + head + chunk(b"IDAT", rows) + chunk(b"IEND", b"")


def rle_bmp(width: int) -> bytes:
    """Return a run-length encoded BMP of one row, 64 bytes long; Pillow decodes it in Python."""
    info = struct.pack("<IiiHHIIiiII", 40, width, 1, 1, 8, 1, 6, 0, 0, 1, 0)
    pixels = b"\x01\x00\x00\x01\x00\x00"
    offset = 14 + len(info) + 4
    file = struct.pack("<2sIHHI", b"BM", offset + len(pixels), 0, 0, offset)
    return file + info + bytes(4) + pixels


def padded_jpeg(jpeg: bytes, count: int) -> bytes:
    """Put fill bytes before the first marker of a JPEG; Pillow skips them one by one, in Python."""
    return jpeg[:2] + b"\xff" * count + jpeg[2:]
