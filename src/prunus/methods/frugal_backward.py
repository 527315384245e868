"""Save memory for the backward pass: torch keeps the inputs of layers even if no gradient needs them.

A layer that is linear in its input and has frozen weights only needs the shape of the input. A ReLU only needs one bit
per value. In this mode the layers below keep exactly that, in any network. Results and gradients are unchanged.
"""

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.autograd.graph import saved_tensors_hooks
from torch.overrides import TorchFunctionMode

Keeping = AbstractContextManager[object]


class FrugalBackward(TorchFunctionMode):
    """A mode in which layers keep only what their gradients need."""

    def __torch_function__(
        self,
        func: Callable[..., Any],
        types: Sequence[type],
        args: Sequence[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:  # noqa: ANN401  # any result of the function
        keeping = KEEPING.get(func)
        with keeping(*args, **(kwargs or {})) if keeping else nullcontext():
            return func(*args, **(kwargs or {}))


def _shape_only(x: Tensor) -> Keeping:
    """Keep the shape of a layer's input instead of the input."""
    address = x.data_ptr()  # the hooks outlive the layer and must not keep its input alive
    shape = x.shape
    x_like = torch.zeros((), dtype=x.dtype, device=x.device)

    def pack(kept: Tensor) -> Tensor | torch.Size:
        return shape if kept.data_ptr() == address and kept.shape == shape else kept

    def unpack(packed: Tensor | torch.Size) -> Tensor:
        return packed if isinstance(packed, Tensor) else x_like.expand(packed)

    return saved_tensors_hooks(pack, unpack)


def _one_bit(low: float, high: float) -> Keeping:
    """Keep one bit per value: whether it lies between two bounds, which determines the gradient of a ReLU."""
    inside, outside = (1.0, -1.0) if high == float("inf") else ((low + high) / 2, low - 1)

    def pack(kept: Tensor) -> tuple[Tensor, Tensor, torch.Size]:
        bits = (kept > low) & (kept < high)
        padded = F.pad(bits.reshape(-1), (0, -bits.numel() % 8)).view(-1, 8).to(torch.uint8)
        powers = 2 ** torch.arange(8, dtype=torch.uint8, device=kept.device)
        return (padded * powers).sum(1, dtype=torch.uint8), kept.new_tensor([outside, inside]), kept.shape

    def unpack(packed: tuple[Tensor, Tensor, torch.Size]) -> Tensor:
        octets, values, shape = packed
        shifts = torch.arange(8, dtype=torch.uint8, device=octets.device)
        bits = (octets[:, None] >> shifts) & 1
        return values[bits.reshape(-1)[: shape.numel()].long()].view(shape)

    return saved_tensors_hooks(pack, unpack)


def _frozen(x: Tensor, *factors: Tensor | None) -> Keeping:
    learned = any(factor is not None and factor.requires_grad for factor in factors)
    return nullcontext() if learned else _shape_only(x)


def _norm_context(  # noqa: PLR0913, PLR0917  # torch's own arguments
    x: Tensor,
    running_mean: Tensor | None,
    running_var: Tensor | None,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    training: bool = False,
    momentum: float = 0.1,
    eps: float = 1e-5,
) -> Keeping:
    return nullcontext() if training or running_mean is None else _frozen(x, weight)


KEEPING: dict[Callable[..., Any], Callable[..., Keeping]] = {
    F.conv2d: lambda x, weight, *_, **__: _frozen(x, weight),
    F.batch_norm: _norm_context,
    F.avg_pool2d: lambda x, *_, **__: _frozen(x),
    F.adaptive_avg_pool2d: lambda x, *_, **__: _frozen(x),
    **dict.fromkeys(
        (F.relu, torch.relu, torch.Tensor.relu, torch.relu_, torch.Tensor.relu_),
        lambda *_, **__: _one_bit(0.0, float("inf")),
    ),
    F.relu6: lambda *_, **__: _one_bit(0.0, 6.0),
    F.hardtanh: lambda _x, min_val=-1.0, max_val=1.0, *_, **__: _one_bit(min_val, max_val),
}
