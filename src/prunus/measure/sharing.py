"""How much domains share.

Legend: D = domains, M = kernels.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt


def sharing_matrix(mask_DM: npt.NDArray[np.bool_]) -> npt.NDArray[np.float64]:
    """Give for every pair of domains kernels both use / kernels either uses (Jaccard); 1 where neither uses any."""
    counts = mask_DM.astype(np.float64)
    both_DD = counts @ counts.T
    sizes_D = counts.sum(1)
    either_DD = sizes_D[:, None] + sizes_D - both_DD
    shares_DD: npt.NDArray[np.float64] = np.where(either_DD > 0, both_DD / np.maximum(either_DD, 1), 1.0)
    return shares_DD
