"""Masks as bits, eight to a byte, starting with the lowest bit."""

import numpy as np

from prunus.arrays import Bools, Bytes


def pack_bits(mask: Bools) -> Bytes:
    """Pack a mask of any shape."""
    return np.packbits(mask.reshape(-1), bitorder="little")


def unpack_bits(packed: Bytes, count: int) -> Bools:
    """Unpack the first `count` bits."""
    return np.unpackbits(packed, count=count, bitorder="little").view(np.bool_)
