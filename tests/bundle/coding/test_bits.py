"""Bits are packed eight to a byte, the lowest first."""

import numpy as np

from prunus.bundle.coding.bits import pack_bits, unpack_bits


def test_bits_come_back_in_order() -> None:
    mask = np.array([True, False, False, True, True, False, True, False, True, True])
    assert pack_bits(mask).tolist() == [0b01011001, 0b11]
    assert unpack_bits(pack_bits(mask), 10).tolist() == mask.tolist()
