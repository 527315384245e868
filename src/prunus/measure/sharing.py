"""How much domains share, counted from packed bits.

Legend: D = domains, B = bytes of eight kernels each.
"""

from collections.abc import Sequence

import numpy as np

from prunus.arrays import Bytes, Doubles, Integers

BITS_SET = np.array([value.bit_count() for value in range(256)], dtype=np.uint8)  # by value of a byte


def count_bits(packed: Bytes) -> Integers:
    """Count the bits that are set, over the last axis."""
    counts: Integers = BITS_SET[packed].sum(axis=-1, dtype=np.int64)
    return counts


def count_shared(packed_DB: Bytes) -> Integers:
    """Count for every pair of domains the kernels that both use; the diagonal holds what each uses."""
    return np.stack([count_bits(packed_DB & packed_B) for packed_B in packed_DB])


def sharing_of(both_DD: Integers) -> Doubles:
    """Return for every pair of domains kernels both use / kernels either uses (Jaccard); 1 if neither uses any."""
    sizes_D = both_DD.diagonal()
    either_DD = sizes_D[:, None] + sizes_D - both_DD
    shares_DD: Doubles = np.where(either_DD > 0, both_DD / np.maximum(either_DD, 1), 1.0)
    return shares_DD


def by_domain(domains: Sequence[str], shares_DD: Doubles) -> dict[str, dict[str, float]]:
    """Return a matrix over pairs of domains with its rows and columns by name."""
    rows = [dict(zip(domains, row, strict=True)) for row in shares_DD.tolist()]
    return dict(zip(domains, rows, strict=True))
