"""The index of a layer, which tells the kept kernels, in the smaller of two codes: a bit per kernel, or run lengths.

Runs alternate, starting with kernels that are not kept, and their lengths add up to the number of kernels. A length is
a base-128 number, lowest seven bits first. The highest bit is set in every byte but the last.
"""

from typing import Literal

import numpy as np
import numpy.typing as npt

from prunus.arrays import Bools, Bytes
from prunus.bundle.coding.bits import pack_bits, unpack_bits
from prunus.errors import BundleError

Code = Literal["bits", "runs"]
Lengths = npt.NDArray[np.int64]
MOST_BYTES = 5  # of a length; no file has as many kernels


def encode_index(kept: Bools) -> tuple[Code, Bytes]:
    """Encode the kept kernels in the code that takes fewer bytes."""
    flat = kept.reshape(-1)
    edges = np.flatnonzero(np.diff(np.concatenate([[False], flat]).astype(np.int8)))
    lengths = np.diff(np.concatenate([[0], edges, [flat.size]]))
    runs = sum(int((lengths >= 128**byte).sum()) for byte in range(1, MOST_BYTES)) + len(lengths)
    bits = -(-flat.size // 8)
    if bits <= runs:
        return "bits", pack_bits(flat)
    coded = bytearray()
    for length in map(int, lengths):
        while length >= 128:
            coded.append(length % 128 + 128)
            length //= 128  # noqa: PLW2901  # the digits that remain
        coded.append(length)
    return "runs", np.frombuffer(bytes(coded), dtype=np.uint8)


def decode_index(code: Code, stored: Bytes, count: int) -> Bools:
    """Decode the kept ones of `count` kernels; refuse an index that does not match their number."""
    if code == "bits":
        if stored.size != -(-count // 8):
            raise BundleError(f"it is damaged: an index of {stored.size} bytes does not match {count} kernels")
        if count % 8 and int(stored[-1]) >> count % 8:
            raise BundleError("it is damaged: an index has bits after its last kernel")
        return unpack_bits(stored, count)
    lengths = _decode_lengths(stored, count)
    if lengths.sum() != count:
        raise BundleError(f"it is damaged: the runs of an index add up to {lengths.sum()} kernels instead of {count}")
    return np.repeat(np.arange(len(lengths)) % 2 == 1, lengths)


def _decode_lengths(stored: Bytes, largest: int) -> Lengths:
    starts = np.flatnonzero(np.concatenate([[True], stored[:-1] < 128])[: stored.size])
    positions = np.arange(stored.size) - np.repeat(starts, np.diff(np.append(starts, stored.size)))
    if (positions > MOST_BYTES - 1).any():
        raise BundleError(f"it is damaged: an index has a run of more than its {largest} kernels")
    if stored.size and stored[-1] >= 128:
        raise BundleError("it is damaged: an index ends in the middle of a number")
    digits = (stored & 127).astype(np.int64) << 7 * positions
    lengths: Lengths = np.add.reduceat(digits, starts) if stored.size else digits
    if (lengths > largest).any():
        raise BundleError(f"it is damaged: an index has a run of more than its {largest} kernels")
    if not lengths[1:].all():
        raise BundleError("it is damaged: an index has an empty run")
    return lengths
