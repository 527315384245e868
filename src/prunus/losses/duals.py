"""Multipliers of constraints: they climb while a constraint is violated and are 0 once it holds."""

from __future__ import annotations

import torch
from torch import Tensor


def ascend(multiplier: Tensor, violation: Tensor, rate: float) -> Tensor:
    """Take one step of gradient ascent on multiplier * violation; a constraint that holds has no multiplier.

    A multiplier that was minimised with everything else would simply go to 0.
    """
    return torch.where(violation > 0, multiplier + rate * violation, torch.zeros_like(multiplier))
