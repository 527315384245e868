"""Numbers as they are stored: float32, or half as many bytes."""

from __future__ import annotations

from typing import Literal

import numpy as np
import numpy.typing as npt

from prunus.arrays import Floats

DType = Literal["float32", "float16", "bfloat16"]
STORED: dict[DType, np.dtype[np.generic]] = {
    "float32": np.dtype(np.float32),
    "float16": np.dtype(np.float16),
    "bfloat16": np.dtype(np.uint16),  # numpy has none: the upper half of a float32, as bits
}

SOME = 1 << 14  # numbers
CODES: dict[DType, str] = {"float32": "F32", "float16": "F16", "bfloat16": "U16"}  # safetensors' names


def encode(values: npt.NDArray[np.generic], dtype: DType) -> npt.NDArray[np.generic]:
    """Round to the stored type, to the nearest, ties to even; what is too large for float16 becomes its largest."""
    wide = widened(values)
    if dtype == "float16":
        largest = np.finfo(np.float16).max
        return np.clip(wide, -largest, largest).astype(np.float16)
    if dtype == "bfloat16":
        bits = wide.view(np.uint32)
        return ((bits.astype(np.uint64) + 0x7FFF + ((bits >> 16) & 1)) >> 16).astype(np.uint16)
    return wide


def all_finite(stored: npt.NDArray[np.generic]) -> bool:
    """Tell whether all stored numbers are finite; some at a time, for each needs a copy."""
    flat = stored.reshape(-1)
    return all(bool(np.isfinite(widened(flat[first : first + SOME])).all()) for first in range(0, flat.size, SOME))


def widened(stored: npt.NDArray[np.generic]) -> Floats:
    """Give stored numbers as float32; their type tells what they are."""
    if stored.dtype == STORED["bfloat16"]:
        return (stored.astype(np.uint32) << 16).view(np.float32)
    return stored.astype(np.float32, copy=False)
