"""Round kernels and activations to 8 bits while a network trains, as a model file of integers does later.

A file has one scale per output channel for the kernels of all domains, and a range of numbers per domain for what a
convolution reads. Gradients pass the rounding unchanged; a number outside its range gets none.

Legend: D = domains, L = convolutions, O = output channels, I = input channels of one group.
"""

from collections.abc import Mapping
from functools import partial

import torch
from torch import Tensor, nn
from typing_extensions import override

from prunus.masks.adapter import Adapter, Entrance
from prunus.masks.layout import convolutions, like_weight
from prunus.masks.switches import Switches

LEVELS = 127  # of a weight, on either side of zero
CODES = 255  # of an activation, above the lowest
RATE = 0.1  # of the last batch in the moving average of a range
SMALLEST = 1e-12  # scale, of a layer that reads or computes nothing but zeros


def round_kernels(weight: Tensor, kept: Tensor | None = None) -> Tensor:
    """Round kernels to 127 levels on either side of zero, with one scale per output channel.

    Args:
        kept: the kernels that a scale must cover (default: all), broadcastable to the weights.
    """
    fixed = weight.detach()
    covered = fixed if kept is None else fixed * kept
    others = tuple(range(1, weight.ndim))  # axes
    scale = (covered.abs().amax(others, keepdim=True) / LEVELS).clamp(min=SMALLEST)
    codes = (fixed / scale).round().clamp(-LEVELS, LEVELS)
    return codes * scale + (weight - fixed)  # the bracket is exactly 0


def round_activations(x: Tensor, low: Tensor, high: Tensor) -> Tensor:
    """Round numbers to 256 steps of a range that contains zero, which stays zero, and clip what is outside."""
    scale = ((high - low) / CODES).clamp(min=SMALLEST)
    zero = (-low / scale).round()
    clipped = x.float().clamp(-zero * scale, (CODES - zero) * scale)
    fixed = clipped.detach()
    codes = (fixed / scale + zero).round().clamp(0, CODES)
    return ((codes - zero) * scale + (clipped - fixed)).to(x.dtype)


class Rounding(Adapter):
    """Rounds the kernels and the inputs of all switched layers in training mode, once it is on.

    The ranges of inputs are moving averages of the smallest and largest number of a batch, per domain and layer.
    Nothing is read back from the device.
    """

    ranges_DL2: Tensor  # noqa: N815  # shape suffix; zeros where nothing has been seen

    def __init__(self, network: nn.Module, switches: Switches | None, num_domains: int) -> None:
        super().__init__()
        self.convs = tuple(conv.name for conv in convolutions(network))
        self.is_on = False
        self._switches = (switches,)  # torch would register a module of its own a second time
        self.register_buffer("ranges_DL2", torch.zeros(num_domains, len(self.convs), 2))

    @override
    def tensors(self, domain: int, frozen: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """Return rounded kernels; they must be those that no switch has turned off yet."""
        if not (self.is_on and self.training):
            return {}
        (switches,) = self._switches
        kept = {} if switches is None else switches.layout.views(switches.masks().any(0))
        weights = {conv: frozen[f"{conv}.weight"] for conv in self.convs}
        return {
            f"{conv}.weight": round_kernels(weight, like_weight(kept[conv], weight) if conv in kept else None)
            for conv, weight in weights.items()
        }

    @override
    def entrances(self, domain: int) -> dict[str, Entrance]:
        if not (self.is_on and self.training):
            return {}
        return {conv: partial(self._enter, domain, index) for index, conv in enumerate(self.convs)}

    def _enter(self, domain: int, index: int, x: Tensor) -> Tensor:
        """Take a batch into the range of a layer, and round it."""
        range_2 = self.ranges_DL2[domain, index]
        with torch.no_grad():
            low, high = x.amin().float().clamp(max=0), x.amax().float().clamp(min=0)
            range_2.lerp_(torch.stack([low, high]), torch.where(range_2.any(), RATE, 1.0))
            low, high = range_2.clone()  # the backward pass needs them as they are now
        return round_activations(x, low, high)
