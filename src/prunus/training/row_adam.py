"""Adam for the switches, where only some domains take part in a step.

Legend: D = domains, M = switches of a domain.

torch.optim.Adam keeps one step count per tensor and moves every row by its momentum, even rows without a gradient.
Here a domain that takes no part in a step stays exactly as it was.
"""

import torch
from torch import Tensor


class RowAdam:
    """Adam (Kingma and Ba) over the rows of one matrix, each row with its own step count."""

    def __init__(self, parameter: Tensor, betas: tuple[float, float] = (0.9, 0.999), eps: float = 1e-8) -> None:
        self.parameter = parameter
        self.betas = betas
        self.eps = eps
        self.mean_DM = torch.zeros_like(parameter)
        self.square_DM = torch.zeros_like(parameter)
        self.steps_D = torch.zeros(len(parameter), device=parameter.device)

    @torch.no_grad()
    def step(self, active_D: Tensor, lr: float) -> None:
        """Move the active rows by their gradients; nothing is read back, so the CPU never waits for the device."""
        assert self.parameter.grad is not None
        gradient_DM = self.parameter.grad
        first, second = self.betas
        active_D1 = active_D.to(gradient_DM.dtype)[:, None]
        self.steps_D += active_D
        self.mean_DM.add_((gradient_DM - self.mean_DM).mul_(active_D1 * (1 - first)))
        self.square_DM.add_((gradient_DM**2 - self.square_DM).mul_(active_D1 * (1 - second)))
        count_D1 = self.steps_D.clamp(min=1)[:, None].double()
        root_DM = self.square_DM.sqrt().div_((1 - second**count_D1).sqrt().float()).add_(self.eps)
        size_D1 = (lr / (1 - first**count_D1)).float() * active_D1
        self.parameter.sub_(self.mean_DM.div(root_DM).mul_(size_D1))

    def tensors(self) -> dict[str, Tensor]:
        """Return the state by name, for checkpoints."""
        return {"mean": self.mean_DM, "square": self.square_DM, "steps": self.steps_D}
