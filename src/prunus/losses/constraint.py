"""What a loss on 0/1 switches hands on: how far it is violated, and its gradient."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor


@dataclass(frozen=True)
class Constraint:
    """A constraint `violation <= 0` on switches, or a column of them, one per domain.

    The loss is max(0, multiplier * violation); violation, gradient and multiplier broadcast against each other.
    """

    violation: Tensor
    gradient: Tensor

    def loss_gradient(self, multiplier: Tensor) -> Tensor:
        """Give the gradient of max(0, multiplier * violation) by the switches: nothing where the constraint holds."""
        return self.gradient * (multiplier * (self.violation > 0))
