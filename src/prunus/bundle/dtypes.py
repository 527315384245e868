"""The number types of a file: float32, float16 and bfloat16 in half as many bytes, and int8 in a quarter."""

import numpy as np

from prunus.arrays import Array, DType, Floats

STORED: dict[DType, np.dtype[np.generic]] = {
    "float32": np.dtype(np.float32),
    "float16": np.dtype(np.float16),
    "bfloat16": np.dtype(np.uint16),  # numpy has no bfloat16: these are the upper 16 bits of a float32
    "int8": np.dtype(np.int8),  # codes, which are multiplied by a scale: `encode` does not make them
}
CHUNK = 1 << 14  # numbers that are widened at once


def encode(values: Array, dtype: DType) -> Array:
    """Round to the nearest stored number, ties to even; clip to the range of float16."""
    wide = widened(values)
    if dtype == "float16":
        largest = np.finfo(np.float16).max
        return np.clip(wide, -largest, largest).astype(np.float16)
    if dtype == "bfloat16":
        bits = wide.view(np.uint32)
        return ((bits.astype(np.uint64) + 0x7FFF + ((bits >> 16) & 1)) >> 16).astype(np.uint16)
    return wide


def all_finite(stored: Array) -> bool:
    """Return whether all stored numbers are finite, without a copy of all of them."""
    flat = stored.reshape(-1)
    return all(bool(np.isfinite(widened(flat[first : first + CHUNK])).all()) for first in range(0, flat.size, CHUNK))


def widened(stored: Array) -> Floats:
    """Convert stored numbers to float32."""
    if stored.dtype == STORED["bfloat16"]:
        return (stored.astype(np.uint32) << 16).view(np.float32)
    return stored.astype(np.float32, copy=False)
