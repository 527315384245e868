"""The sharing losses of the paper, and one that pushes masks apart, with closed-form gradients.

Legend: D = domains, M = switches of a domain, n = number of domains that use a switch, b = the bit of one domain.

On 0/1 masks the product over the domains (intersection) changes with a bit only where all other domains use the
switch, n - b = D - 1. The folded a + b - ab (union) changes only where no other domain does, n - b = 0.
"""

from collections.abc import Callable

import torch
from torch import Tensor

from prunus.errors import UnknownNameError
from prunus.losses.constraint import Constraint


def intersection_constraint(mask_DM: Tensor, budget: float) -> Constraint:
    """Require all domains to share as many kernels as the budget allows: 1 - |intersection| / (M * budget)."""
    size, gradient_DM = intersection(mask_DM)
    allowed = mask_DM.shape[1] * budget
    return Constraint(1 - size / allowed, gradient_DM / -allowed)


def union_constraint(mask_DM: Tensor, budget: float) -> Constraint:
    """Require all domains together to use no more kernels than the budget allows: |union| / M - budget."""
    size, gradient_DM = union(mask_DM)
    num_switches = mask_DM.shape[1]
    return Constraint(size / num_switches - budget, gradient_DM / num_switches)


def jaccard_constraint(mask_DM: Tensor, budget: float) -> Constraint:
    """Require all domains to use the same kernels: 1 - |intersection| / |union|; the budget is ignored."""
    common, common_gradient_DM = intersection(mask_DM)
    total, total_gradient_DM = union(mask_DM)
    total = total.clamp(min=1)  # every switch off: 0 / 1 rather than 0 / 0
    return Constraint(1 - common / total, total_gradient_DM * (common / total**2) - common_gradient_DM / total)


def soft_overlap_constraint(mask_DM: Tensor, budget: float) -> Constraint:
    """Push the domains' masks apart (Chattopadhyay et al., ECCV 2020): the mean of |a and b| / |a or b| over all pairs.

    As published, masks are soft, with a b for "and" and a + b - a b for "or", and the loss is that of one layer; what a
    step adds is the sum over the layers. The budget is ignored.
    """
    values_DM = mask_DM.float() if mask_DM.dtype == torch.bool else mask_DM
    size_D, common_DD = values_DM.sum(1), values_DM @ values_DM.T
    total_DD = (size_D[:, None] + size_D - common_DD).clamp(min=1e-12)  # every switch off: 0 / tiny rather than 0 / 0
    pairs_DD = (1 - torch.eye(len(mask_DM), dtype=values_DM.dtype, device=mask_DM.device)) / max(
        len(mask_DM) * (len(mask_DM) - 1) / 2, 1
    )
    by_common_DD, by_total_DD = pairs_DD / total_DD, pairs_DD * common_DD / total_DD**2
    # a bit of domain k: the overlap with j grows where j has the bit, the total where it has not
    gradient_DM = by_common_DD @ values_DM - by_total_DD.sum(1, keepdim=True) + by_total_DD @ values_DM
    return Constraint((pairs_DD * common_DD / total_DD).sum() / 2, gradient_DM)


SHARING_LOSSES: dict[str, Callable[[Tensor, float], Constraint]] = {
    "intersection": intersection_constraint,
    "union": union_constraint,
    "jaccard": jaccard_constraint,
    "soft_overlap": soft_overlap_constraint,
}

# losses that are never satisfied: their weight is fixed (default: the authors'), they see soft masks layer by layer,
# and they move only the domains of the batch
PENALTIES: dict[str, float] = {"soft_overlap": 0.1}


def find_sharing_loss(name: str) -> Callable[[Tensor, float], Constraint]:
    """Look up a sharing loss by name."""
    if name not in SHARING_LOSSES:
        raise UnknownNameError("sharing loss", name, SHARING_LOSSES)
    return SHARING_LOSSES[name]


def intersection(mask_DM: Tensor) -> tuple[Tensor, Tensor]:
    """Count the switches that all domains use; return the gradient by every bit as well."""
    used_by_M, others_DM = _count_users(mask_DM)
    return (used_by_M == len(mask_DM)).sum(), (others_DM == len(mask_DM) - 1).float()


def union(mask_DM: Tensor) -> tuple[Tensor, Tensor]:
    """Count the switches that any domain uses; return the gradient by every bit as well."""
    used_by_M, others_DM = _count_users(mask_DM)
    return (used_by_M > 0).sum(), (others_DM == 0).float()


def _count_users(mask_DM: Tensor) -> tuple[Tensor, Tensor]:
    used_by_M = mask_DM.sum(0, dtype=torch.int16)
    return used_by_M, used_by_M - mask_DM.to(torch.int16)
