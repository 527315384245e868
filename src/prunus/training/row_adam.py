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
    def step(self, active_D: Tensor, lr: Tensor) -> None:
        """Move the active rows by their gradients; a GPU is never waited for, a CPU skips the other rows."""
        if active_D.is_cuda:
            self._move(slice(None), active_D, lr)
            return
        for row in active_D.nonzero().flatten().tolist():
            self._move(slice(row, row + 1), active_D[row : row + 1], lr)

    def _move(self, rows: slice, active_D: Tensor, lr: Tensor) -> None:
        assert self.parameter.grad is not None
        gradient_DM, mean_DM, square_DM = self.parameter.grad[rows], self.mean_DM[rows], self.square_DM[rows]
        first, second = self.betas
        active_D1 = active_D.to(gradient_DM.dtype)[:, None]
        self.steps_D[rows] += active_D
        mean_DM.add_((gradient_DM - mean_DM).mul_(active_D1 * (1 - first)))
        square_DM.add_((gradient_DM**2 - square_DM).mul_(active_D1 * (1 - second)))
        count_D1 = self.steps_D[rows].clamp(min=1)[:, None].double()
        root_DM = square_DM.sqrt().div_((1 - second**count_D1).sqrt().float()).add_(self.eps)
        size_D1 = (lr / (1 - first**count_D1)).float() * active_D1
        self.parameter[rows].sub_(mean_DM.div(root_DM).mul_(size_D1))

    def tensors(self) -> dict[str, Tensor]:
        """Return the state by name, for checkpoints."""
        return {"mean": self.mean_DM, "square": self.square_DM, "steps": self.steps_D}
