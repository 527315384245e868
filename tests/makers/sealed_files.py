"""Model files with any header and a correct checksum."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from safetensors import safe_open
from safetensors.numpy import load, save

from prunus.arrays import Array
from prunus.bundle.header import FileHeader


def file_header(path: Path) -> dict[str, Any]:
    """Return the header of a model file as JSON."""
    with safe_open(path, framework="numpy") as file:
        content: dict[str, Any] = json.loads(file.metadata()["prunus"])
    return content


def seal(path: Path, header: dict[str, Any], arrays: dict[str, Array]) -> None:
    """Write a file with any header and a correct checksum."""
    data = save(arrays)
    data = data[8 + int.from_bytes(data[:8], "little") :]
    digest = hashlib.sha256(json.dumps(header | {"sha256": ""}).encode() + data)
    path.write_bytes(save(arrays, {"prunus": json.dumps(header | {"sha256": digest.hexdigest()})}))


def rewrite_header(path: Path, change: Callable[[dict[str, Any]], object], fit: bool = False) -> None:
    """Change the header of a file and write it with a correct checksum; with `fit`, all parts become zeros."""
    header = file_header(path)
    change(header)
    arrays = load(path.read_bytes())
    if fit:
        parts = FileHeader.model_validate(header).parts()
        arrays = {name: np.zeros(part.size, part.dtype) for name, part in parts.items()}
    seal(path, header, arrays)
