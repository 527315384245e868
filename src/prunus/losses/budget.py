"""The budget loss of BA²: a domain may use at most a share of the kernels.

Legend: M = switches of a domain.
"""

from __future__ import annotations

import torch
from torch import Tensor

from prunus.losses.constraint import Constraint


def usage(mask: Tensor) -> Tensor:
    """Give the share of switches that are on, over the last dimension."""
    return mask.float().mean(-1)


def budget_constraint(mask_M: Tensor, budget: float) -> Constraint:
    """Ask one domain to use at most `budget` of all kernels."""
    return Constraint(usage(mask_M) - budget, torch.full(mask_M.shape, 1 / mask_M.numel(), device=mask_M.device))
