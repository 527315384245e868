"""Batch norms whose statistics are those of the whole batch, although every process sees only a share of it.

torch's SyncBatchNorm must replace the layers of a network, and does not run on CPUs. A mode works for any layer that
calls torch's batch norm, so networks stay as they are. On a GPU it calls the kernels of SyncBatchNorm.

Legend: B = images, C = channels, W = processes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, cast

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import Tensor
from torch.autograd.function import FunctionCtx, once_differentiable
from torch.nn.modules._functions import SyncBatchNorm  # the layer of this name has no other content
from torch.overrides import TorchFunctionMode

from prunus.parallel.processes import Processes


class SyncedNorms(TorchFunctionMode):
    """A mode in which batch norms in training use the statistics of all processes' images."""

    def __init__(self, processes: Processes) -> None:
        super().__init__()
        self._processes = processes

    def __torch_function__(
        self,
        func: Callable[..., Any],
        types: Sequence[type],
        args: Sequence[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:  # noqa: ANN401  # any result of the function
        if func is F.batch_norm:
            return self._batch_norm(*args, **(kwargs or {}))
        return func(*args, **(kwargs or {}))

    def _batch_norm(  # noqa: PLR0913, PLR0917  # torch's own arguments
        self,
        x: Tensor,
        running_mean: Tensor | None,
        running_var: Tensor | None,
        weight: Tensor | None = None,
        bias: Tensor | None = None,
        training: bool = False,
        momentum: float = 0.1,
        eps: float = 1e-5,
    ) -> Tensor:
        if not training:
            return F.batch_norm(x, running_mean, running_var, weight, bias, False, momentum, eps)
        if x.is_cuda:
            whole = (dist.group.WORLD, self._processes.world)
            return cast(
                "Tensor", SyncBatchNorm.apply(x, weight, bias, running_mean, running_var, eps, momentum, *whole)
            )
        with torch.no_grad():
            count, mean_C, var_C = whole_statistics(x, self._processes)
            if count == 1:  # as torch does
                raise ValueError(f"a norm in training needs more than one value per channel, got {tuple(x.shape)}")
            if running_mean is not None and running_var is not None:
                running_mean.lerp_(mean_C.to(running_mean.dtype), momentum)
                unbiased_C = var_C * (count / (count - 1))
                running_var.lerp_(unbiased_C.to(running_var.dtype), momentum)
        y = _WholeNorm.apply(x, weight, bias, (count, mean_C, var_C, eps), self._processes)
        return cast("Tensor", y)


def whole_statistics(x: Tensor, processes: Processes) -> tuple[Tensor, Tensor, Tensor]:
    """Return the number of values per channel, their means and their variances over all processes.

    The processes exchange means and centred squares, which stay exact where the mean is far from 0 (Chan et al., 1983).
    """
    values = x.to(_precision(x))
    count = values.numel() // values.shape[1]
    mean_C = values.mean(_all_but_channels(x))
    square_C = (values - _like(mean_C, x)).square_().sum(_all_but_channels(x))
    rows = processes.gather(torch.cat([mean_C.new_full((1,), count), mean_C, square_C]))
    count_W1, mean_WC, square_WC = torch.split(rows, [1, len(mean_C), len(mean_C)], dim=1)
    total = count_W1.sum()
    whole_C = (mean_WC * count_W1).sum(0) / total
    shifted_WC = square_WC + count_W1 * (mean_WC - whole_C) ** 2
    return total, whole_C, shifted_WC.sum(0) / total


class _WholeNorm(torch.autograd.Function):
    """Normalization by the statistics of all processes, which depend on this process's images too."""

    @staticmethod
    def forward(
        ctx: FunctionCtx,
        x: Tensor,
        weight: Tensor | None,
        bias: Tensor | None,
        statistics: tuple[Tensor, Tensor, Tensor, float],
        processes: Processes,
    ) -> Tensor:
        count, mean_C, var_C, eps = statistics
        ctx.save_for_backward(x, cast("Tensor", weight), count, mean_C, (var_C + eps).rsqrt())
        ctx.processes = processes  # type: ignore[attr-defined]
        scale, shift = (None if tensor is None else tensor.to(mean_C.dtype) for tensor in (weight, bias))
        return F.batch_norm(x, mean_C, var_C, scale, shift, False, 0.0, eps)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:  # noqa: ANN401  # torch's context
        x, weight, count, mean_C, scale_C = ctx.saved_tensors
        needs_x, needs_weight, needs_bias, *_ = ctx.needs_input_grad
        values = gradient.to(mean_C.dtype)
        centred = x.to(mean_C.dtype) - _like(mean_C, x)
        sum_C = values.sum(_all_but_channels(x))
        product_C = (values * centred).sum(_all_but_channels(x)) * scale_C
        # these stay sums over this process's images: they are summed with all other gradients
        of_weight = product_C.clone() if needs_weight else None
        of_bias = sum_C.clone() if needs_bias else None
        of_x = None
        if needs_x:
            ctx.processes.sum_([sum_C, product_C])
            pull_C = -scale_C * product_C / count
            of_x = torch.addcmul(values - _like(sum_C / count, x), centred, _like(pull_C, x))
            of_x = of_x.mul_(_like(scale_C if weight is None else scale_C * weight, x)).to(x.dtype)
        return of_x, of_weight, of_bias, None, None


def _precision(x: Tensor) -> torch.dtype:
    return torch.float64 if x.dtype == torch.float64 else torch.float32


def _all_but_channels(x: Tensor) -> list[int]:
    return [dim for dim in range(x.ndim) if dim != 1]


def _like(values_C: Tensor, x: Tensor) -> Tensor:
    return values_C.view(-1, *[1] * (x.ndim - 2))
