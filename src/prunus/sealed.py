"""Safetensors files with a checksum of all their bytes, so that no flipped bit goes unnoticed.

A checksum proves that a file is not damaged. It does not prove who wrote it. The bytes of the checksum itself count as
zeros. Files that earlier versions wrote have no checksum and are read without one.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any

KEY = "prunus"  # of the metadata; a second key would make the order of bytes random
ALGORITHM = "sha256"
EMPTY = b"0" * 64
_MARK = json.dumps(f'"{ALGORITHM}": "')[1:-1].encode()  # as JSON inside JSON writes it


def sealable(header: Mapping[str, object]) -> dict[str, str]:
    """Return the metadata of a safetensors file that `seal` can complete."""
    # two keys announce the checksum, so that a damaged name of one of them cannot hide it
    return {KEY: json.dumps({"checksum": ALGORITHM, ALGORITHM: EMPTY.decode(), **header})}


def seal(content: bytes) -> bytes:
    """Put the checksum of a file into its header."""
    start = content.index(_MARK) + len(_MARK)
    assert content[start : start + len(EMPTY)] == EMPTY
    return b"".join([content[:start], _digest(content, start), content[start + len(EMPTY) :]])


def read_header(content: bytes) -> dict[str, Any]:
    """Return the header of a file, after checking its checksum if it has one; damage is a ValueError."""
    size = int.from_bytes(content[:8], "little")
    try:
        metadata = json.loads(content[8 : 8 + size]).get("__metadata__", {KEY: "{}"})
        header = json.loads(metadata[KEY])
    except (KeyError, TypeError, AttributeError, RecursionError) as error:
        raise ValueError(f"its header is damaged ({type(error).__name__}: {error})") from None
    if not isinstance(header, dict):
        raise ValueError("its header is not a table")
    if "checksum" in header or ALGORITHM in header:
        _check(content, header)
    return header


def is_sealed(header: Mapping[str, object]) -> bool:
    """Return whether a header that `read_header` returned has a checksum."""
    return ALGORITHM in header


def _check(content: bytes, header: Mapping[str, object]) -> None:
    start = content.find(_MARK) + len(_MARK)
    digest = _digest(content, start).decode()
    if header.get("checksum") != ALGORITHM or header.get(ALGORITHM) != digest:
        raise ValueError("its checksum does not match its content")


def _digest(content: bytes, start: int) -> bytes:
    """Hash a file whose checksum begins at an offset."""
    digest = hashlib.sha256(memoryview(content)[:start])
    digest.update(EMPTY)
    digest.update(memoryview(content)[start + len(EMPTY) :])
    return digest.hexdigest().encode()
