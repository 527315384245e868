"""The outside of a model file: a safetensors file, whose JSON is parsed here, with limits, before its data is read.

What is not even that is a ValueError; what is, but no model of ours, a BundleError.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import IO, Any

from prunus.bundle.header import Part
from prunus.errors import BundleError
from prunus.graph.limits import MAX_HEADER

METADATA_KEY = "prunus"
LENGTH_BYTES = 8
ALIGNMENT = 8  # spaces after the JSON object fill it to a multiple of this many bytes


def read_container(file: IO[bytes], size: int) -> dict[str, Any]:
    """Read the JSON object before the data; the file then stands where the data begins."""
    length = int.from_bytes(file.read(LENGTH_BYTES), "little")
    if size < LENGTH_BYTES or length > MAX_HEADER:
        raise ValueError(f"its first {LENGTH_BYTES} bytes give no length that a header can have")
    if length > size - LENGTH_BYTES:
        raise ValueError("it is cut off: it ends before its header does")
    content = parse_json(file.read(length).decode())
    if not isinstance(content, dict):
        raise ValueError("its header is no JSON object")
    return content


def header_text(container: dict[str, Any]) -> str | None:
    """Find our own header, if the file is ours."""
    metadata = container.get("__metadata__")
    text = metadata.get(METADATA_KEY) if isinstance(metadata, dict) and len(metadata) == 1 else None
    return text if isinstance(text, str) else None


def check_parts(container: dict[str, Any], parts: dict[str, Part], data_size: int) -> None:
    """Compare what the file says about its arrays with what its header demands: not a byte more or less."""
    entries = {name: entry for name, entry in container.items() if name != "__metadata__"}
    expected = _entries(parts)
    for name in sorted(entries.keys() | expected.keys()):
        if entries.get(name) != expected.get(name):
            raise BundleError(f"its part {name!r} should be {expected.get(name)}, is {str(entries.get(name))[:200]}")
    end = max(part.end for part in parts.values())
    if data_size != end:
        raise ValueError(f"it has {data_size} bytes of data, its header is about {end}")


def container_size(text: str, parts: dict[str, Part]) -> int:
    """Return the size in bytes of a file with our header and these parts."""
    header = json.dumps(
        {"__metadata__": {METADATA_KEY: text}} | _entries(parts), ensure_ascii=False, separators=(",", ":")
    )
    length = len(header.encode())
    return LENGTH_BYTES + length + -length % ALIGNMENT + max(part.end for part in parts.values())


def _entries(parts: dict[str, Part]) -> dict[str, Any]:
    return {
        name: {"dtype": part.code, "shape": [part.size], "data_offsets": [part.begin, part.end]}
        for name, part in parts.items()
    }


def parse_json(text: str) -> Any:  # noqa: ANN401  # any JSON
    """Parse JSON; an object that has a key twice means different things to different readers and is refused."""
    return json.loads(text, object_pairs_hook=_unique)


def _unique(pairs: Sequence[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise BundleError("its header has a key twice")
    return found
