"""Split model files and join them again with a valid checksum, whatever they claim."""

from __future__ import annotations

import hashlib
import json
import struct
from typing import Any

import numpy as np
from pydantic import ValidationError

from prunus.bundle.header import FileHeader
from prunus.errors import BundleError

MOST_BYTES = 2**24  # of a part that is extended


def split(content: bytes) -> tuple[dict[str, Any], bytes]:
    (length,) = struct.unpack("<Q", content[:8])
    return json.loads(content[8 : 8 + length]), content[8 + length :]


def join(header: object, data: bytes) -> bytes:
    text = json.dumps(header).encode()
    return struct.pack("<Q", len(text)) + text + data


def sealed(own: Any, header: dict[str, Any], data: bytes, refit: bool) -> bytes:  # noqa: ANN401  # any JSON
    """Return a file with a valid checksum; with `refit`, the parts get the sizes that the header claims."""
    container = dict(header)
    if refit:
        container, data = _refitted(own, container, data)
    if isinstance(own, dict):
        text = json.dumps(own | {"sha256": ""})
        own = own | {"sha256": hashlib.sha256(text.encode() + data).hexdigest()}
    container["__metadata__"] = {"prunus": json.dumps(own)}
    return join(container, data)


def _refitted(own: Any, container: dict[str, Any], data: bytes) -> tuple[dict[str, Any], bytes]:  # noqa: ANN401
    try:
        parts = FileHeader.model_validate_json(json.dumps(own)).parts()
    except (BundleError, ValidationError, ValueError, KeyError, IndexError):
        return container, data
    if max(part.end for part in parts.values()) > MOST_BYTES:
        return container, data
    entries = {}
    pieces = []
    for name, part in parts.items():
        offsets = container.get(name, {"data_offsets": (0, 0)})["data_offsets"]
        old = np.frombuffer(data[slice(*offsets)], np.uint8)
        resized = np.resize(old, part.end - part.begin) if old.size else np.zeros(part.end - part.begin, np.uint8)
        pieces.append(resized.tobytes())
        entries[name] = {"dtype": part.code, "shape": [part.size], "data_offsets": [part.begin, part.end]}
    return entries, b"".join(pieces)
