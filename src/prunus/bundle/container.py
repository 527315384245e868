"""The container of a model file: safetensors, whose JSON header is parsed and checked here before data is read.

Files that are not safetensors raise a ValueError. Other safetensors files raise a BundleError.
"""

import json
from collections.abc import Sequence
from typing import IO, Any

from prunus.bundle.header import Part
from prunus.errors import BundleError
from prunus.graph.limits import MAX_HEADER, MAX_HEADER_VALUES

METADATA_KEY = "prunus"
LENGTH_BYTES = 8
ALIGNMENT = 8  # spaces after the JSON object fill it to a multiple of this many bytes


def read_container(file: IO[bytes], size: int) -> dict[str, Any]:
    """Read the JSON object at the start of a file; the position in the file is then the start of the data."""
    length = int.from_bytes(file.read(LENGTH_BYTES), "little")
    if size < LENGTH_BYTES or length > MAX_HEADER:
        raise ValueError(f"its first {LENGTH_BYTES} bytes are not the length of a header")
    if length > size - LENGTH_BYTES:
        raise ValueError("it ends before the end of its header")
    text = file.read(length).decode()
    if count_values(text) > MAX_HEADER_VALUES:
        raise BundleError(f"its header has {count_values(text)} values; at most {MAX_HEADER_VALUES} are allowed")
    content = parse_json(text)
    if not isinstance(content, dict):
        raise ValueError("its header is not a JSON object")
    return content


def count_values(text: str) -> int:
    """Count the values of a JSON text without parsing it; punctuation inside strings counts too."""
    return text.count(",") + text.count("[") + text.count("{")


def header_text(container: dict[str, Any]) -> str | None:
    """Return the header of a Prunus model; None if the file is not one."""
    metadata = container.get("__metadata__")
    text = metadata.get(METADATA_KEY) if isinstance(metadata, dict) and len(metadata) == 1 else None
    return text if isinstance(text, str) else None


def check_parts(container: dict[str, Any], parts: dict[str, Part], data_size: int) -> None:
    """Compare the parts that a file lists, and the size of its data, with what its header requires."""
    entries = {name: entry for name, entry in container.items() if name != "__metadata__"}
    expected = _entries(parts)
    for name in sorted(entries.keys() | expected.keys()):
        if entries.get(name) != expected.get(name):
            actual = str(entries.get(name, "missing"))[:200]
            raise BundleError(f"its part {name!r} is {actual}, but should be {expected.get(name, 'missing')}")
    end = max(part.end for part in parts.values())
    if data_size != end:
        raise ValueError(f"it has {data_size} bytes of data, but its header describes {end}")


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
    """Parse JSON; refuse objects with a repeated key, which readers understand differently."""
    return json.loads(text, object_pairs_hook=_unique)


def _unique(pairs: Sequence[tuple[str, Any]]) -> dict[str, Any]:
    content = dict(pairs)
    if len(content) < len(pairs):
        raise BundleError("its header contains a key twice")
    return content
