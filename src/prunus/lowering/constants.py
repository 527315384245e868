"""Channels that were removed because they are constant, as what reads them sees them."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor, nn
from torch.func import functional_call

from prunus.backbone.probe import Probe
from prunus.masks.adapter import Adapter, Cost
from prunus.masks.per_domain import PerDomain


class WithConstants(nn.Module):
    """A convolution some of whose inputs are gone, being constant.

    Zeros that pad an image make a constant channel end at the border, so that its share of the result is no constant
    there. All constant channels together are one channel of ones with its own kernels.
    """

    def __init__(self, conv: nn.Conv2d) -> None:
        super().__init__()
        self.conv = conv
        self.ones_weight = nn.Parameter(torch.zeros(conv.out_channels, 1, *conv.weight.shape[2:]), requires_grad=False)

    def forward(self, x: Tensor) -> Tensor:
        """Convolve, and add what the constant channels would have added."""
        ones = torch.ones_like(x[:1, :1])
        tensors: dict[str, Tensor] = {"weight": self.ones_weight}
        if self.conv.bias is not None:
            tensors["bias"] = torch.zeros_like(self.conv.bias)
        result: Tensor = self.conv(x) + functional_call(self.conv, tensors, (ones,))
        return result


class FoldedConstants(Adapter):
    """Every domain's biases and kernels over ones, in which removed constants live on."""

    def __init__(self, start: Mapping[str, Tensor], by_domain: list[Mapping[str, Tensor]]) -> None:
        super().__init__()
        self.constants = PerDomain({}, len(by_domain), start)
        for domain, values in enumerate(by_domain):
            for name, tensor in self.constants.of(domain).items():
                tensor.copy_(values[name])

    def tensors(self, domain: int, frozen: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """Give one domain's constants."""
        return self.constants.of(domain)

    def cost(self, domain: int, run: Probe) -> Cost:
        """Count them apart from the convolutions."""
        return Cost(side=sum(tensor.numel() for tensor in self.constants.of(domain).values()))
