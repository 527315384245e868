"""Adam for the switches, where only some domains take part in a step.

Legend: D = domains, M = switches of a domain.

torch.optim.Adam keeps one step count per tensor and moves every row by its momentum, even rows without a gradient.
Here a domain that takes no part in a step stays exactly as it was.
"""

from collections.abc import Callable
from functools import cache

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
        first, second = self.betas
        self.steps_D += active_D
        count_D1 = self.steps_D.clamp(min=1)[:, None].double()
        scale_D1 = (1 - second**count_D1).sqrt().float()
        size_D1 = (lr / (1 - first**count_D1)).float()
        if active_D.is_cuda:
            _compiled_move()(self._rows(slice(None)), active_D[:, None], scale_D1, size_D1, (first, second, self.eps))
            return
        for row in active_D.nonzero().flatten().tolist():
            one = slice(row, row + 1)
            _move(self._rows(one), active_D[one, None], scale_D1[one], size_D1[one], (first, second, self.eps))

    def _rows(self, rows: slice) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        assert self.parameter.grad is not None
        return self.parameter[rows], self.parameter.grad[rows], self.mean_DM[rows], self.square_DM[rows]

    def tensors(self) -> dict[str, Tensor]:
        """Return the state by name, for checkpoints."""
        return {"mean": self.mean_DM, "square": self.square_DM, "steps": self.steps_D}


def _move(
    rows: tuple[Tensor, Tensor, Tensor, Tensor],
    active_D1: Tensor,
    scale_D1: Tensor,
    size_D1: Tensor,
    settings: tuple[float, float, float],
) -> None:
    """Update parameter, mean and square in place from the gradient; inactive rows stay as they are."""
    parameter_DM, gradient_DM, mean_DM, square_DM = rows
    first, second, eps = settings
    share_D1 = active_D1.to(gradient_DM.dtype)
    mean_DM.add_((gradient_DM - mean_DM).mul_(share_D1 * (1 - first)))
    square_DM.add_((gradient_DM**2 - square_DM).mul_(share_D1 * (1 - second)))
    root_DM = square_DM.sqrt().div_(scale_D1).add_(eps)
    parameter_DM.sub_(mean_DM.div(root_DM).mul_(size_D1 * share_D1))


@cache
def _compiled_move() -> Callable[..., None]:
    """Compile on first use: importing torch's compiler takes seconds."""
    compiled: Callable[..., None] = torch.compile(_move)
    return compiled
