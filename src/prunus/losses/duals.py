"""Multipliers of constraints, which grow while a constraint is violated and are 0 once it holds."""

import torch
from torch import Tensor


def ascend(multiplier: Tensor, violation: Tensor, rate: float) -> Tensor:
    """Take one step of gradient ascent on multiplier * violation; reset the multiplier where the constraint holds.

    Minimising the multiplier along with the loss would drive it to 0.
    """
    return torch.where(violation > 0, multiplier + rate * violation, torch.zeros_like(multiplier))
