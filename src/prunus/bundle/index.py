"""Which kernels are kept, in the cheaper of two codes: a bit per kernel, or the lengths of runs.

Runs alternate, beginning with kernels that are not kept, and their lengths add up to all kernels. A length is a
little-endian base-128 number: seven bits to a byte, the lowest first, the highest bit set in all bytes but the last.
"""

from __future__ import annotations

from typing import Literal

import numpy as np
import numpy.typing as npt

from prunus.arrays import Bools, Bytes
from prunus.bundle.bits import pack_bits, unpack_bits
from prunus.errors import BundleError

Code = Literal["bits", "runs"]
Lengths = npt.NDArray[np.int64]
MOST_BYTES = 5  # of a length: as many kernels as no file has


def encode_index(kept: Bools) -> tuple[Code, Bytes]:
    """Write which kernels are kept in the code that takes fewer bytes."""
    flat = kept.reshape(-1)
    edges = np.flatnonzero(np.diff(np.concatenate([[False], flat]).astype(np.int8)))
    lengths = np.diff(np.concatenate([[0], edges, [flat.size]]))
    runs = sum(-(-max(int(length).bit_length(), 1) // 7) for length in lengths)
    bits = -(-flat.size // 8)
    if bits <= runs:
        return "bits", pack_bits(flat)
    coded = bytearray()
    for length in map(int, lengths):
        while length >= 128:
            coded.append(length % 128 + 128)
            length //= 128  # noqa: PLW2901  # the rest of it
        coded.append(length)
    return "runs", np.frombuffer(bytes(coded), dtype=np.uint8)


def decode_index(code: Code, stored: Bytes, count: int) -> Bools:
    """Read which of `count` kernels are kept; whatever does not add up is refused."""
    if code == "bits":
        if stored.size != -(-count // 8):
            raise BundleError(f"an index of {stored.size} bytes does not fit {count} kernels")
        if count % 8 and int(stored[-1]) >> count % 8:
            raise BundleError("an index has bits behind its last kernel")
        return unpack_bits(stored, count)
    lengths = _decode_numbers(stored, count)
    if lengths.sum() != count:
        raise BundleError(f"the runs of an index add up to {lengths.sum()}, not to {count} kernels")
    return np.repeat(np.arange(len(lengths)) % 2 == 1, lengths)


def _decode_numbers(stored: Bytes, largest: int) -> Lengths:
    starts = np.flatnonzero(np.concatenate([[True], stored[:-1] < 128])[: stored.size])
    places = np.arange(stored.size) - np.repeat(starts, np.diff(np.append(starts, stored.size)))
    if (places > MOST_BYTES - 1).any():
        raise BundleError(f"a run of an index is longer than its {largest} kernels")
    if stored.size and stored[-1] >= 128:
        raise BundleError("an index ends in the middle of a number")
    parts = (stored & 127).astype(np.int64) << 7 * places
    numbers: Lengths = np.add.reduceat(parts, starts) if stored.size else parts
    if (numbers > largest).any():
        raise BundleError(f"a run of an index is longer than its {largest} kernels")
    if not numbers[1:].all():
        raise BundleError("an index has an empty run")
    return numbers
