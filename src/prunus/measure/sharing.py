"""How much domains share, counted from packed bits.

Legend: D = domains, M = kernels, B = bytes of eight kernels each.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

BITS = np.array([value.bit_count() for value in range(256)], dtype=np.uint8)  # how many are set in a byte


def count_shared(packed_DB: npt.NDArray[np.uint8]) -> npt.NDArray[np.int64]:
    """Count for every pair of domains the kernels that both use; the diagonal is what each uses."""
    rows = [BITS[packed_DB & packed_B].sum(axis=1, dtype=np.int64) for packed_B in packed_DB]
    return np.stack(rows)


def sharing_of(both_DD: npt.NDArray[np.int64]) -> npt.NDArray[np.float64]:
    """Give for every pair of domains kernels both use / kernels either uses (Jaccard); 1 where neither uses any."""
    sizes_D = both_DD.diagonal()
    either_DD = sizes_D[:, None] + sizes_D - both_DD
    shares_DD: npt.NDArray[np.float64] = np.where(either_DD > 0, both_DD / np.maximum(either_DD, 1), 1.0)
    return shares_DD


def sharing_matrix(mask_DM: npt.NDArray[np.bool_]) -> npt.NDArray[np.float64]:
    """Give the sharing of domains whose masks are switches one by one."""
    return sharing_of(count_shared(np.packbits(mask_DM, axis=1)))
