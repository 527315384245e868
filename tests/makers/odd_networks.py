"""Small networks whose forward pass is a function of a few layers: what people write beside the usual blocks."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn

from prunus.backbone.zoo import Backbone
from prunus.masks.network import MultiDomainNet
from tests.makers.masked_networks import tiny_net


class OddNetwork(nn.Module):
    """A network whose forward pass is given as a function of its layers."""

    def __init__(self, run: Callable[[OddNetwork, Tensor], Tensor]) -> None:
        super().__init__()
        self.a = nn.Conv2d(3, 4, 3, padding=1)
        self.b = nn.Conv2d(4, 4, 3, padding="same")
        self.c = nn.Conv2d(4, 4, 1)
        self.wide = nn.Conv2d(8, 4, 1)
        self.grouped = nn.Conv2d(4, 8, (3, 5), padding=2, dilation=2, groups=4)
        self.norm = nn.BatchNorm2d(4)
        self.again = nn.BatchNorm2d(4, affine=False)
        self.act: nn.Module = nn.ReLU()
        self.inplace = nn.ReLU(inplace=True)
        self.flat = nn.BatchNorm1d(4)
        self.features = nn.LayerNorm(4)
        self.scale = nn.Parameter(torch.linspace(0.5, 2.0, 4))
        self._run = run

    def forward(self, x: Tensor) -> Tensor:
        return self._run(self, x)


Run = Callable[[OddNetwork, Tensor], Tensor]


def odd_net(run: Run, act: nn.Module | None = None) -> tuple[Backbone, MultiDomainNet]:
    """Put two domains around an odd network for images of 9 pixels."""
    torch.manual_seed(0)
    network = OddNetwork(run)
    network.act = act or network.act
    return tiny_net(network, 9)


def mean(x: Tensor) -> Tensor:
    """Average over all pixels."""
    return x.mean((2, 3))
