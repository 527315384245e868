"""DA³: only additive parameters are learned, so training keeps few activations in memory.

Yang et al., CVPRW 2022. The gradient of a learned factor needs the activations that it multiplies; the gradient of a
summand does not. The backbone's weights and the scales and statistics of its norms stay frozen. A domain learns the
biases of the norms and adds a coarse attention map to the output y of every larger convolution with input x:
y + up(s * sigmoid(A * pool(x))), where A is a 1x1 convolution and s a scale per channel. The authors published no code.
The shape of the attention is ours, and their gating at test time is omitted.
"""

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from math import prod

import torch
import torch.nn.functional as F
from pydantic import Field
from torch import Tensor, nn
from typing_extensions import override

from prunus.backbone.probe import Probe
from prunus.backbone.zoo import Backbone
from prunus.config import Settings
from prunus.masks.adapter import Adapter, Branch, Cost
from prunus.masks.layer_copies import norm_layers
from prunus.masks.per_domain import PerDomain
from prunus.methods.adapters import adapted_convs
from prunus.methods.frugal_backward import FrugalBackward
from prunus.methods.method import Method


class Options(Settings):
    """The resolution of the attention maps."""

    pooling: int = Field(default=4, ge=1, description="input pixels per pixel of the attention map, along each side")


class AddedAttention(Adapter):
    """A 1x1 convolution and a scale per channel for every domain and convolution; the scales start at zero."""

    def __init__(self, network: nn.Module, num_domains: int, pooling: int) -> None:
        super().__init__()
        self.convs = adapted_convs(network)
        self.pooling = pooling
        shapes = {name: conv.weight.shape for name, conv in self.convs.items()}
        start = {name: torch.randn(*shape[:2], 1, 1) * shape[1] ** -0.5 for name, shape in shapes.items()}
        self.attention = PerDomain(start, num_domains)
        self.scales = PerDomain({name: torch.zeros(shape[0], 1, 1) for name, shape in shapes.items()}, num_domains)

    @override
    def computing(self) -> AbstractContextManager[object]:
        return FrugalBackward() if self.training else super().computing()

    @override
    def branches(self, domain: int) -> dict[str, Branch]:
        scales = self.scales.of(domain)
        return {
            name: _adding(weight, scales[name], self.convs[name].groups, self.pooling)
            for name, weight in self.attention.of(domain).items()
        }

    @override
    def cost(self, domain: int, run: Probe) -> Cost:
        sizes = {name: weight.numel() for name, weight in self.attention.of(domain).items() if name in run.shapes}
        calls = {name: run.positions[name] // prod(run.shapes[name][1:]) for name in sizes}
        macs = sum(n * calls[name] * prod(_pooled(run.shapes[name], self.pooling)) for name, n in sizes.items())
        return Cost(weights=sum(sizes.values()), side=sum(run.shapes[name][0] for name in sizes), macs=macs)


def _adding(weight: Tensor, scale: Tensor, groups: int, pooling: int) -> Branch:
    def branch(x: Tensor, y: Tensor) -> Tensor:
        pooled = F.adaptive_avg_pool2d(x, _pooled(y.shape, pooling))
        coarse = scale * torch.sigmoid(F.conv2d(pooled, weight, groups=groups))
        return y + F.interpolate(coarse, size=y.shape[-2:], mode="nearest")

    return branch


def _pooled(shape: Sequence[int], pooling: int) -> tuple[int, int]:
    return -(-shape[-2] // pooling), -(-shape[-1] // pooling)


class DomainBiases(Adapter):
    """The biases of all norms, one copy per domain."""

    def __init__(self, network: nn.Module, num_domains: int) -> None:
        super().__init__()
        parameters = dict(network.named_parameters())
        names = [name for layer in norm_layers(network) if (name := f"{layer}.bias") in parameters]
        self.biases = PerDomain({name: parameters[name] for name in names}, num_domains)

    @override
    def tensors(self, domain: int, frozen: Mapping[str, Tensor]) -> dict[str, Tensor]:
        return self.biases.of(domain)

    @override
    def cost(self, domain: int, run: Probe) -> Cost:
        return Cost(side=sum(bias.numel() for bias in self.biases.of(domain).values()))


def build(backbone: Backbone, classes: Sequence[int], options: Options) -> list[Adapter]:
    """Add attention maps to the convolutions, and biases per domain to the norms."""
    return [
        AddedAttention(backbone.network, len(classes), options.pooling),
        DomainBiases(backbone.network, len(classes)),
    ]


METHOD = Method(
    summary="additive attention maps and biases, which need little memory in training",
    paper="Yang et al., CVPRW 2022",
    cost="outputs x inputs per larger convolution",
    build=build,
    options=Options,
    weight_lr=0.01,
)
