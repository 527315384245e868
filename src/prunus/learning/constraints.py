"""The budget and sharing losses of one step: their multipliers, and their gradients by the switches' scores.

Legend: D = domains, M = switches of a domain, K = kernels.
"""

import torch
from torch import Tensor

from prunus.losses.budget import BUDGETS, Layers
from prunus.losses.constraint import Constraint
from prunus.losses.duals import ascend
from prunus.losses.sharing import PENALTIES, find_sharing_loss
from prunus.masks.switches import Switches
from prunus.methods.table import ChosenMethod

NO_LIMIT = 1.0  # a share of all kernels


class Constraints:
    """What the budget and the sharing loss of a method demand of the switches, with their multipliers.

    Args:
        budget: the share of kernels that a domain may use, or None for no limit.
        rate: the rate at which the multipliers of the budget grow.
        sharing_rate: the same of the sharing loss (default: `rate`).
    """

    def __init__(
        self,
        chosen: ChosenMethod,
        budget: float | None,
        rate: float,
        num_domains: int,
        sharing_rate: float | None = None,
    ) -> None:
        self.chosen = chosen
        self.budget = NO_LIMIT if budget is None else budget
        self.rate = rate
        self.sharing_rate = sharing_rate or rate
        self.limit = BUDGETS[getattr(chosen.options, "budget_per", "network")]
        self.sharing = find_sharing_loss(chosen.sharing) if chosen.sharing else None
        self.budget_multiplier_D = torch.zeros(num_domains)
        self.sharing_multiplier = torch.tensor(0.0 if chosen.weight == "learned" else chosen.weight)

    def to(self, device: torch.device) -> "Constraints":
        """Move the multipliers to a device."""
        self.budget_multiplier_D = self.budget_multiplier_D.to(device)
        self.sharing_multiplier = self.sharing_multiplier.to(device)
        return self

    def add_gradients(self, switches: Switches, active_D: Tensor) -> Tensor:
        """Add the losses' gradients to those of the scores; return which domains' switches move.

        Nothing is read back from the device, so a GPU can compile and capture it.

        Args:
            active_D: whether a domain is in the batch.
        """
        is_penalized = self.chosen.method.has_budget and not self.chosen.method.keeps_budget
        if self.sharing is None and not is_penalized:
            return active_D
        mask_DK = switches.kernel_masks()
        if is_penalized:
            self._add_budget(switches, mask_DK, active_D)
        if self.sharing is None:
            return active_D
        return self._add_sharing(switches, mask_DK, active_D)

    def _add_budget(self, switches: Switches, mask_DK: Tensor, active_D: Tensor) -> None:
        convs = switches.layout.convs
        macs = tuple(conv.kernel_area * switches.layout.positions.get(conv.name, 0) for conv in convs)
        limit = self.limit(mask_DK, self.budget, Layers(tuple(conv.num_kernels for conv in convs), macs))
        climbed_D = ascend(self.budget_multiplier_D, limit.violation[:, 0], self.rate)
        self.budget_multiplier_D.copy_(torch.where(active_D, climbed_D, self.budget_multiplier_D))
        by_kernel_DK = limit.loss_gradient((self.budget_multiplier_D * active_D)[:, None])
        gradient_DM = switches.scores_DM.grad
        assert gradient_DM is not None
        gradient_DM += switches.layout.gather(by_kernel_DK.expand(mask_DK.shape))

    def _add_sharing(self, switches: Switches, mask_DK: Tensor, active_D: Tensor) -> Tensor:
        assert self.sharing is not None
        gradient_DM = switches.scores_DM.grad
        assert gradient_DM is not None
        if self.chosen.sharing in PENALTIES:
            gradient_DM += self._overlap(switches).loss_gradient(self.sharing_multiplier) * active_D[:, None]
            return active_D
        shared = self.sharing(mask_DK, self.budget)
        if self.chosen.weight == "learned":
            self.sharing_multiplier.copy_(ascend(self.sharing_multiplier, shared.violation, self.sharing_rate))
        pulled_DM = switches.layout.gather(shared.loss_gradient(self.sharing_multiplier))
        if self.chosen.freezes_others:
            gradient_DM += pulled_DM * active_D[:, None]
            return active_D
        gradient_DM += pulled_DM
        return active_D | (shared.violation > 0)  # it moves all domains, not only those of the batch

    def _overlap(self, switches: Switches) -> Constraint:
        """Sum a penalty over the layers, by soft masks.

        The gradients of the classification loss reach the scores as if the threshold were the identity. So do those of
        soft masks: the derivative of the sigmoid, which both have in the authors' code, would weigh only one of them.
        Domains move in their own steps only: one that feels nothing but the penalty would switch everything off.
        """
        assert self.sharing is not None
        parts = torch.split(switches.soft_masks(), switches.layout.sizes, dim=1)
        layers = [self.sharing(part_DM, self.budget) for part_DM in parts]
        violation = torch.stack([layer.violation for layer in layers]).sum()
        return Constraint(violation, torch.cat([layer.gradient for layer in layers], 1))

    def tensors(self) -> dict[str, Tensor]:
        """Return the multipliers by name, for checkpoints."""
        return {"budget": self.budget_multiplier_D, "sharing": self.sharing_multiplier}
