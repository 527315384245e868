"""Hostile uploads: damaged images, images with false claims, malformed requests."""

from __future__ import annotations

import io
import struct
import zlib
from collections.abc import Callable

import numpy as np
from PIL import Image

from benchmarks.http_load import BOUNDARY

Hostile = Callable[[np.random.Generator], bytes]  # returns a complete HTTP request
FORMATS = ("JPEG", "PNG", "WEBP", "BMP", "PPM", "GIF", "TIFF")


def picture(rng: np.random.Generator, kind: str | None = None) -> bytes:
    """Encode a small random image."""
    side = int(rng.integers(1, 64))
    modes = {"JPEG": ("RGB", "L", "CMYK"), "BMP": ("RGB", "L"), "PPM": ("RGB", "L")}
    kind = kind or str(rng.choice(FORMATS))
    mode = str(rng.choice(modes.get(kind, ("RGB", "L", "RGBA"))))
    image = Image.fromarray(rng.integers(0, 256, (side, side, 3), np.uint8)).convert(mode)
    buffer = io.BytesIO()
    image.save(buffer, kind)
    return buffer.getvalue()


def flipped(rng: np.random.Generator) -> bytes:
    content = np.frombuffer(picture(rng), np.uint8).copy()
    offsets = rng.integers(0, len(content), int(rng.integers(1, 20)))
    content[offsets] = rng.integers(0, 256, len(offsets), np.uint8)
    return upload(content.tobytes())


def cut(rng: np.random.Generator) -> bytes:
    content = picture(rng)
    return upload(content[: int(rng.integers(0, len(content)))])


def joined(rng: np.random.Generator) -> bytes:
    left, right = picture(rng), picture(rng)
    return upload(left[: int(rng.integers(1, len(left)))] + right[int(rng.integers(0, len(right))) :])


def noise(rng: np.random.Generator) -> bytes:
    starts = (
        b"",
        b"\xff\xd8\xff",
        b"\x89PNG\r\n\x1a\n",
        b"RIFF\x00\x01\x00\x00WEBP",
        b"BM",
        b"P6\n9 9\n",
        b"<svg",
        b"GIF89a",
    )
    return upload(starts[int(rng.integers(len(starts)))] + rng.bytes(int(rng.integers(0, 3000))))


def bomb(rng: np.random.Generator) -> bytes:
    """Return a PNG of a few hundred bytes that claims up to billions of pixels."""
    width, height = (int(x) for x in rng.integers(1, 2 ** int(rng.integers(4, 32)), 2))
    head = struct.pack(">IIBBBBB", width, height, int(rng.choice([1, 8, 16])), int(rng.choice([0, 2, 3, 6])), 0, 0, 0)
    rows = zlib.compress(bytes(int(rng.integers(0, 10**6))))
    return upload(b"\x89PNG\r\n\x1a\n" + b"".join(map(_chunk, (b"IHDR", b"IDAT", b"IEND"), (head, rows, b""))))


def many_scans(rng: np.random.Generator) -> bytes:
    """Return a JPEG with thousands of scans of a dozen bytes, each of which visits all pixels."""
    width, height = (int(x) for x in rng.integers(1, 3000, 2))
    buffer = io.BytesIO()
    Image.new("L", (width, height), int(rng.integers(256))).save(buffer, "JPEG", progressive=True)
    content = buffer.getvalue()
    start = content.rindex(b"\xff\xda")
    return upload(content[:start] + content[start:-2] * int(rng.integers(1, 20_000)) + content[-2:])


def _chunk(name: bytes, content: bytes) -> bytes:
    return struct.pack(">I", len(content)) + name + content + struct.pack(">I", zlib.crc32(name + content))


def animation(rng: np.random.Generator) -> bytes:
    frames = [Image.fromarray(rng.integers(0, 256, (8, 8, 3), np.uint8)) for _ in range(3)]
    buffer = io.BytesIO()
    frames[0].save(buffer, str(rng.choice(["PNG", "WEBP", "GIF"])), save_all=True, append_images=frames[1:])
    return upload(buffer.getvalue())


def odd_form(rng: np.random.Generator) -> bytes:
    """Return a body with damaged boundaries, headers and ends."""
    body = bytearray(form([picture(rng, "PNG")]))
    for _ in range(int(rng.integers(1, 6))):
        offset = int(rng.integers(0, min(len(body), 120)))
        body[offset : offset + int(rng.integers(0, 3))] = rng.bytes(int(rng.integers(0, 3)))
    return request(bytes(body))


def odd_names(rng: np.random.Generator) -> bytes:
    """Return an upload whose file name is a path, markup, or not text."""
    names = (
        "../../etc/passwd",
        "a" * 5000,
        "<script>alert(1)</script>",
        "\u202egnp.exe",
        "a\\x00b",
        "",
        'x"; name="top',
    )
    return upload(picture(rng, "PNG"), names[int(rng.integers(len(names)))])


def many(rng: np.random.Generator) -> bytes:
    return request(form([picture(rng, "PNG")] * int(rng.integers(1, 60))))


def odd_head(rng: np.random.Generator) -> bytes:
    """Return a request with another content type, boundary, domain or query."""
    kinds = (
        "text/plain",
        "multipart/form-data",
        "multipart/form-data; boundary=",
        "application/json",
        "",
        "é; boundary=x",
    )
    paths = (
        "/predict/%00",
        "/predict/../../etc/passwd",
        f"/predict/{'a' * 3000}",
        "/predict/",
        "/predict/{domain}?top=-1",
    )
    path = str(
        rng.choice(
            [
                *paths,
                "/predict/{domain}",
                "/predict/{domain}?top=1e9",
                "/predict/{domain}?top=%F0%9F%8D%91",
                "/examples/x/-1",
            ]
        )
    )
    return request(form([picture(rng, "PNG")]), path, str(rng.choice([*kinds, KIND])))


KIND = f"multipart/form-data; boundary={BOUNDARY.decode()}"
HOSTILE: dict[str, Hostile] = {
    "flipped bytes": flipped,
    "cut off": cut,
    "two files joined": joined,
    "noise": noise,
    "decompression bomb": bomb,
    "many scans": many_scans,
    "animation": animation,
    "damaged form": odd_form,
    "odd names": odd_names,
    "too many images": many,
    "odd head": odd_head,
}


def form(contents: list[bytes], name: str = "x.png") -> bytes:
    head = f'Content-Disposition: form-data; name="images"; filename="{name}"\r\n\r\n'.encode()
    parts = b"".join(b"--" + BOUNDARY + b"\r\n" + head + content + b"\r\n" for content in contents)
    return parts + b"--" + BOUNDARY + b"--\r\n"


def upload(content: bytes, name: str = "x.png") -> bytes:
    return request(form([content], name))


def request(body: bytes, path: str = "/predict/{domain}", kind: str = KIND) -> bytes:
    head = f"POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: {kind}\r\nContent-Length: {len(body)}\r\n\r\n"
    return head.encode() + body
