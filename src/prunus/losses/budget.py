"""The budget loss of BA²: a domain may use at most a share of the kernels.

Legend: D = domains, M = switches of a domain.
"""

import torch
from torch import Tensor

from prunus.losses.constraint import Constraint


def usage(mask: Tensor) -> Tensor:
    """Return the share of switches that are on, over the last dimension."""
    return mask.float().mean(-1)


def budget_constraint(mask_DM: Tensor, budget: float) -> Constraint:
    """Require every domain to use at most `budget` of all kernels; both tensors have one row per domain."""
    violation_D1 = usage(mask_DM)[:, None] - budget
    return Constraint(violation_D1, torch.full_like(violation_D1, 1 / mask_DM.shape[1]))
