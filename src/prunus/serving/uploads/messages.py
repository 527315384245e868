"""What the service and a decoder process send each other: a JSON header and raw bytes, each with its length."""

from __future__ import annotations

import struct
from collections.abc import Hashable
from dataclasses import dataclass

from pydantic import BaseModel, ConfigDict

from prunus.arrays import Bytes
from prunus.images import Preprocess

LENGTHS = struct.Struct("<II")


@dataclass(frozen=True)
class Body:
    """The body of a request.

    Args:
        client: clients with different values take turns; the address and port of the connection.
    """

    content: bytes
    boundary: bytes
    preprocess: Preprocess
    client: Hashable


@dataclass(frozen=True)
class Decoded:
    """The images of a request, (3, S, S) each and not yet normalized, and the names of their files."""

    names: list[str]
    images: list[Bytes]
    seconds: float = 0.0  # CPU time that was used

    @property
    def bytes(self) -> int:
        """Return the memory of the images."""
        return sum(image.nbytes for image in self.images)


class Task(BaseModel):
    """The header of a request; its bytes are the body.

    Args:
        boundary: of the form data, in Latin-1.
        max_cost: images that are expected to take more seconds are not decoded, and their cost is returned.
        max_memory: images that are expected to take more bytes are not decoded either.
        max_seconds: CPU time after which decoding stops.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    boundary: str
    preprocess: Preprocess
    max_images: int
    max_pixels: int
    max_cost: float
    max_memory: int
    max_seconds: float


class Answer(BaseModel):
    """The header of an answer; its bytes are the images, (3, S, S) each and not yet normalized, one after the other.

    Args:
        status: HTTP status of a refusal, or 0.
        cost: expected seconds of images that were not decoded, or 0; with a status, if the CPU time was used up.
        memory: expected bytes of images that were not decoded, or 0.
        exhausted: whether the process ran out of memory; it should decode nothing else.
        seconds: CPU time that was used.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    status: int = 0
    message: str = ""
    cost: float = 0.0
    memory: int = 0
    exhausted: bool = False
    seconds: float = 0.0
    names: list[str] = []


def frame(header: BaseModel, length: int) -> bytes:
    """Return the bytes of a message up to its raw bytes."""
    text = header.model_dump_json().encode()
    return LENGTHS.pack(len(text), length) + text


class FrameBuffer:
    """Bytes as they arrive, cut into messages."""

    def __init__(self) -> None:
        self._bytes = bytearray()

    def feed(self, data: bytes) -> None:
        """Add bytes."""
        self._bytes += data

    def next_message(self) -> tuple[bytes, bytes] | None:
        """Return the header and the raw bytes of the next message, or None while it is incomplete."""
        if len(self._bytes) < LENGTHS.size:
            return None
        head, rest = LENGTHS.unpack_from(self._bytes)
        start = LENGTHS.size + head
        if len(self._bytes) < start + rest:
            return None
        message = bytes(self._bytes[LENGTHS.size : start]), bytes(self._bytes[start : start + rest])
        del self._bytes[: start + rest]
        return message
