"""Modulation: every kernel is multiplied by a factor, and the factors of a convolution form a low-rank matrix.

Iakovleva et al., 2023: W[o, i] * (U V)[o, i], with U (O x R) and V (R x I) per domain and convolution.

Legend: O = output channels, I = input channels of one group, R = rank.
"""

from collections.abc import Mapping, Sequence

import torch
from pydantic import Field
from torch import Tensor, nn
from typing_extensions import override

from prunus.backbone.probe import Probe
from prunus.backbone.zoo import Backbone
from prunus.config import Settings
from prunus.masks.adapter import Adapter, Cost
from prunus.masks.layer_copies import DomainNorms
from prunus.masks.layout import ConvShape, convolutions, like_weight
from prunus.masks.per_domain import PerDomain
from prunus.methods.method import Method


class Options(Settings):
    """The rank of the factors."""

    rank: int = Field(default=8, ge=1, description="rank of the factors of a convolution")


class Modulation(Adapter):
    """Two matrices per domain and convolution whose product scales the kernels; all factors start at 1."""

    def __init__(self, network: nn.Module, num_domains: int, rank: int) -> None:
        super().__init__()
        start = {conv.name: _start(conv, rank) for conv in convolutions(network)}
        self.outputs = PerDomain({name: u_OR for name, (u_OR, _) in start.items()}, num_domains)
        self.inputs = PerDomain({name: v_RI for name, (_, v_RI) in start.items()}, num_domains)

    @override
    def tensors(self, domain: int, frozen: Mapping[str, Tensor]) -> dict[str, Tensor]:
        v_RI = self.inputs.of(domain)
        factors = {f"{name}.weight": u_OR @ v_RI[name] for name, u_OR in self.outputs.of(domain).items()}
        return {
            name: frozen[name] * like_weight(factor_OI[:, :, None, None], frozen[name])
            for name, factor_OI in factors.items()
        }

    @override
    def cost(self, domain: int, run: Probe) -> Cost:
        tensors = [*self.outputs.of(domain).values(), *self.inputs.of(domain).values()]
        return Cost(weights=sum(tensor.numel() for tensor in tensors))


def _start(conv: ConvShape, rank: int) -> tuple[Tensor, Tensor]:
    """Return matrices whose product is 1 everywhere: ones in the first rank, and zeros in V for the others."""
    rank = min(rank, conv.out_channels, conv.in_channels)
    u_OR = torch.randn(conv.out_channels, rank) * rank**-0.5
    v_RI = torch.zeros(rank, conv.in_channels)
    u_OR[:, 0] = 1
    v_RI[0] = 1
    return u_OR, v_RI


def build(backbone: Backbone, classes: Sequence[int], options: Options) -> list[Adapter]:
    """Scale the kernels, and add norms per domain."""
    return [
        Modulation(backbone.network, len(classes), options.rank),
        DomainNorms(backbone.network, len(classes)),
    ]


METHOD = Method(
    summary="every kernel scaled, by factors of low rank",
    paper="Iakovleva et al., 2023",
    cost="rank x (outputs + inputs) per convolution",
    build=build,
    options=Options,
    weight_lr=0.1,  # of 0.01 to 0.3; at 0.01 factors hardly leave 1 in a short run, and learn less than norms alone
)
