"""The budget loss of BA²: a domain may use at most a share of the kernels.

Papers do not agree on what the share is of. BA²'s text says "per convolution layer", its table of FLOPs fits a share of
the multiply-accumulates, and its formula is the mean over all kernels, which is the default.

Legend: D = domains, K = kernels, L = layers, M = switches of a domain.
"""

from collections.abc import Callable
from dataclasses import dataclass

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


@dataclass(frozen=True)
class Layers:
    """The kernels of a network by layer.

    Args:
        sizes: number of kernels.
        macs: multiply-accumulates of one kernel, for one image.
    """

    sizes: tuple[int, ...]
    macs: tuple[int, ...]


def layer_budget_constraint(mask_DK: Tensor, budget: float, layers: Layers) -> Constraint:
    """Require every domain to use at most `budget` of the kernels of each layer: the mean excess over all layers."""
    excess_DL = torch.stack([usage(part_DK) for part_DK in torch.split(mask_DK, list(layers.sizes), dim=1)], 1) - budget
    count_L = torch.tensor(layers.sizes, device=mask_DK.device)
    slope_DL = (excess_DL > 0) / (len(layers.sizes) * count_L)
    violation_D1 = excess_DL.clamp(min=0).mean(1, keepdim=True)
    return Constraint(violation_D1, slope_DL.repeat_interleave(count_L, dim=1))


def macs_budget_constraint(mask_DK: Tensor, budget: float, layers: Layers) -> Constraint:
    """Require every domain to compute at most `budget` of the multiply-accumulates of all kernels."""
    macs_L = torch.tensor(layers.macs, dtype=torch.float64, device=mask_DK.device)
    count_L = torch.tensor(layers.sizes, device=mask_DK.device)
    share_1K = (macs_L / (macs_L * count_L).sum()).float().repeat_interleave(count_L)[None]
    return Constraint((mask_DK * share_1K).sum(1, keepdim=True) - budget, share_1K)


BUDGETS: dict[str, Callable[[Tensor, float, Layers], Constraint]] = {
    "network": lambda mask_DK, budget, _layers: budget_constraint(mask_DK, budget),
    "layer": layer_budget_constraint,
    "macs": macs_budget_constraint,
}
