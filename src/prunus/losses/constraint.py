"""The result of a loss on 0/1 switches: by how much a constraint is violated, and the gradient."""

from dataclasses import dataclass

from torch import Tensor


@dataclass(frozen=True)
class Constraint:
    """A constraint `violation <= 0` on switches, or a column with one constraint per domain.

    The loss is max(0, multiplier * violation); violation, gradient and multiplier broadcast against each other.
    """

    violation: Tensor
    gradient: Tensor

    def loss_gradient(self, multiplier: Tensor) -> Tensor:
        """Return the gradient of max(0, multiplier * violation) by the switches; 0 where the constraint holds."""
        return self.gradient * (multiplier * (self.violation > 0))
