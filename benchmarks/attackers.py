"""Clients that try to stop a service; each runs in a process of its own, so that it does not slow the honest clients.

    python -m benchmarks.attackers NAME PORT DOMAIN SECONDS

The process prints a line when its requests are ready, attacks for some seconds, and prints what it sent and which
statuses it received as JSON. It needs no package.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import struct
import sys
import zlib
from collections import Counter
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

from benchmarks.http_load import form_request, read_response

PNG = b"\x89PNG\r\n\x1a\n"
CLOSED = "closed"  # in place of a status: the service closed the connection without a response
AGAIN_SECONDS = 1.0  # before a refused client connects again; at once would be another attack, a flood of connections


@dataclass
class Attack:
    """One attack: where it goes, and what has come of it."""

    port: int
    domain: str
    requests: int = 0
    statuses: Counter[str] = field(default_factory=Counter)


def chunk(kind: bytes, content: bytes) -> bytes:
    """Return one chunk of a PNG."""
    return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))


def grey_png(width: int, height: int, *extra: bytes) -> bytes:
    """Return a grey PNG with extra chunks before its pixels."""
    head = chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0))
    pixels = chunk(b"IDAT", zlib.compress(bytes(height * (width + 1))))
    return PNG + head + b"".join(extra) + pixels + chunk(b"IEND", b"")


def text_png() -> bytes:
    """Return a PNG of 8 x 8 pixels with 60 texts that inflate to a megabyte each."""
    texts = (chunk(b"zTXt", b"text%d\0\0" % number + zlib.compress(bytes(2**20), 9)) for number in range(60))
    return grey_png(8, 8, *texts)


def large_png(width: int = 8000, height: int = 4000) -> bytes:
    """Return a PNG of 32 megapixels with transparency in about 125 kilobytes."""
    compress = zlib.compressobj(9)
    rows = (compress.compress(bytes(4 * width + 1)) for _ in range(height))
    pixels = chunk(b"IDAT", b"".join(rows) + compress.flush())
    return PNG + chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 6, 0, 0, 0)) + pixels + chunk(b"IEND", b"")


def run_bmp(width: int = 31_999_999) -> bytes:
    """Return a run-length encoded BMP of one long row in 68 bytes: a pixel, then the end of the row."""
    palette = bytes(4) + b"\xff\xff\xff\0"
    runs = b"\x01\x00\x00\x00\x00\x01"
    start = 14 + 40 + len(palette)
    head = struct.pack("<IiiHHIIiiII", 40, width, 1, 1, 8, 1, len(runs), 0, 0, 2, 0)
    return b"BM" + struct.pack("<IHHI", start + len(runs), 0, 0, start) + head + palette + runs


def flat_webp(width: int, height: int) -> bytes:
    """Return a lossless WebP of one colour with transparency, which is to be turned upright, in 88 bytes."""
    sides = (width - 1).to_bytes(3, "little") + (height - 1).to_bytes(3, "little")
    packed = struct.pack("<I", (width - 1) | (height - 1) << 14 | 1 << 28)
    pixels = b"\x2f" + packed + bytes.fromhex("0710fd8f020622a2ff01")
    turned = b"MM\0*\0\0\0\x08" + struct.pack(">HHHIHHI", 1, 0x0112, 3, 1, 6, 0, 0)
    parts = ((b"VP8X", b"\x18\0\0\0" + sides), (b"VP8L", pixels), (b"EXIF", turned))
    body = b"WEBP" + b"".join(name + struct.pack("<I", len(part)) + part + bytes(len(part) % 2) for name, part in parts)
    return b"RIFF" + struct.pack("<I", len(body)) + body


def large_webps() -> list[list[bytes]]:
    """Return requests with one WebP each; two of three have a photograph's size."""
    return [[flat_webp(4000, 3850)], [flat_webp(4000, 3850)], [flat_webp(5656, 5656)]]


def largest_body() -> bytes:
    """Return content whose request has a body of exactly 16 MB, the default limit."""
    rest = form_request("", "image", b"").partition(b"\r\n\r\n")[2]
    return bytes(16_000_000 - len(rest))


async def repeat(attack: Attack, request: bytes) -> None:
    """Send a request again and again, and read the answers."""
    while True:
        try:
            reader, writer = await asyncio.open_connection("127.0.0.1", attack.port)
            while True:
                writer.write(request)
                attack.requests += 1
                status, _ = await read_response(reader)
                attack.statuses[str(status)] += 1
        except (OSError, EOFError):
            attack.statuses[CLOSED] += 1
            await asyncio.sleep(AGAIN_SECONDS)


async def trickle(attack: Attack, request: bytes) -> None:
    """Send the head of a request and then a byte of its body each second."""
    head, _, body = request.partition(b"\r\n\r\n")
    while True:
        try:
            reader, writer = await asyncio.open_connection("127.0.0.1", attack.port)
            attack.requests += 1
            writer.write(head + b"\r\n\r\n")
            answer = asyncio.ensure_future(read_response(reader))
            for value in body:
                writer.write(bytes([value]))
                if (await asyncio.wait([answer], timeout=1.0))[0]:
                    break
            attack.statuses[str((await answer)[0])] += 1
            writer.close()
        except (OSError, EOFError):
            attack.statuses[CLOSED] += 1
        await asyncio.sleep(AGAIN_SECONDS)


async def hold_back(attack: Attack, request: bytes) -> None:
    """Send a request without its last five bytes, and wait."""
    while True:
        try:
            reader, writer = await asyncio.open_connection("127.0.0.1", attack.port)
            attack.requests += 1
            writer.write(request[:-5])
            status, _ = await read_response(reader)
            attack.statuses[str(status)] += 1
            writer.close()
        except (OSError, EOFError):
            attack.statuses[CLOSED] += 1
        await asyncio.sleep(AGAIN_SECONDS)


@dataclass(frozen=True)
class Kind:
    """A kind of attack: what its clients do with the images of which requests, and how many clients there are.

    Args:
        harms: honest clients that may be refused or wait, because their requests are as heavy as the attackers'.
    """

    title: str
    clients: int
    act: Callable[[Attack, bytes], Awaitable[None]]
    requests: Callable[[], list[list[bytes]]]  # each client repeats one of them
    harms: tuple[str, ...] = ()


ATTACKS = {
    "texts": Kind("4 PNGs with 60 MB of compressed text each, 1 client", 1, repeat, lambda: [[text_png()] * 4]),
    "runs": Kind("16 run-length BMPs of 32 megapixels, 4 clients", 4, repeat, lambda: [[run_bmp()] * 16]),
    "large": Kind("16 RGBA PNGs of 32 megapixels, 2 clients", 2, repeat, lambda: [[large_png()] * 16]),
    "allowed": Kind("1 RGBA PNG of 32 megapixels, within all limits, 4 clients", 4, repeat, lambda: [[large_png()]]),
    "webp": Kind("1 lossless WebP of 15 or 32 megapixels in 88 bytes, 6 clients", 6, repeat, large_webps),
    "slow": Kind("bodies at 1 byte a second, 600 clients", 600, trickle, lambda: [[bytes(100_000)]]),
    "held": Kind("bodies of 16 MB without their last 5 bytes, 16 clients", 16, hold_back, lambda: [[largest_body()]]),
    "crowd": Kind(
        "1 grey PNG of 14.4 megapixels in 14 KB, 300 clients", 300, repeat, lambda: [[grey_png(4000, 3600)]], ("photo",)
    ),
    "many": Kind("16 PNGs of 8 x 8 pixels, 32 clients", 32, repeat, lambda: [[grey_png(8, 8)] * 16]),
}


async def run(name: str, attack: Attack, seconds: float) -> None:
    """Run all clients of an attack for some seconds."""
    kind = ATTACKS[name]
    requests = [form_request(f"/predict/{attack.domain}", "image", *images) for images in kind.requests()]
    print("ready", flush=True)
    sent = itertools.islice(itertools.cycle(requests), kind.clients)
    clients = [asyncio.ensure_future(kind.act(attack, request)) for request in sent]
    ended, _ = await asyncio.wait(clients, timeout=seconds)
    for client in clients:
        client.cancel()
    for client in ended:
        client.result()  # a client never ends, so this raises its error
    await asyncio.gather(*clients, return_exceptions=True)


def main() -> None:
    name, port, domain, seconds = sys.argv[1:]
    attack = Attack(int(port), domain)
    asyncio.run(run(name, attack, float(seconds)))
    print(json.dumps({"requests": attack.requests, "statuses": attack.statuses}))


if __name__ == "__main__":
    main()
