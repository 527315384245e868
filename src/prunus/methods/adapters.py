"""Residual adapters: a 1x1 convolution per domain after, or in parallel to, every larger convolution.

Rebuffi et al., NIPS 2017 (series): y + A * BN(y), where y is the output of the frozen convolution.
Rebuffi et al., CVPR 2018 (parallel): y + A * x, where x is its input. Both have norms per domain.
"""

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import cast

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from typing_extensions import override

from prunus.backbone.probe import Probe
from prunus.backbone.zoo import Backbone
from prunus.errors import BackboneError
from prunus.masks.adapter import Adapter, Branch, Cost
from prunus.masks.layer_copies import COUNTERS, DomainNorms
from prunus.masks.layout import convolutions
from prunus.masks.per_domain import PerDomain
from prunus.methods.method import Method, NoOptions


def adapted_convs(network: nn.Module) -> dict[str, nn.Conv2d]:
    """Return the convolutions larger than 1x1, or all if there are none: an adapter of a 1x1 would be a copy.

    Linear layers get none for the same reason.
    """
    modules = {conv.name: network.get_submodule(conv.name) for conv in convolutions(network)}
    convs = {name: module for name, module in modules.items() if isinstance(module, nn.Conv2d)}
    if not convs:
        raise BackboneError("the network has no 2-D convolution to put an adapter to; choose another method or network")
    larger = {name: conv for name, conv in convs.items() if conv.kernel_size != (1, 1)}
    return larger or convs


class ParallelAdapters(Adapter):
    """A 1x1 convolution per domain in parallel to each convolution; they start at zero."""

    def __init__(self, network: nn.Module, num_domains: int) -> None:
        super().__init__()
        self.convs = adapted_convs(network)
        start = {name: torch.zeros(*conv.weight.shape[:2], 1, 1) for name, conv in self.convs.items()}
        self.weights = PerDomain(start, num_domains)

    @override
    def branches(self, domain: int) -> dict[str, Branch]:
        return {name: _parallel(self.convs[name], weight) for name, weight in self.weights.of(domain).items()}

    @override
    def cost(self, domain: int, run: Probe) -> Cost:
        sizes = {name: weight.numel() for name, weight in self.weights.of(domain).items() if name in run.positions}
        return Cost(weights=sum(sizes.values()), macs=sum(n * run.positions[name] for name, n in sizes.items()))


def _parallel(conv: nn.Conv2d, weight: Tensor) -> Branch:
    def branch(x: Tensor, y: Tensor) -> Tensor:
        pads = [_pads(conv, axis, x.shape[axis - 2], y.shape[axis - 2]) for axis in (1, 0)]
        x = F.pad(x, [*pads[0], *pads[1]]) if any(map(any, pads)) else x
        return y + F.conv2d(x, weight, stride=conv.stride, groups=conv.groups)

    return branch


def _pads(conv: nn.Conv2d, axis: int, size: int, outputs: int) -> tuple[int, int]:
    """Return the padding before and after a side that aligns a 1x1 kernel with the centres of the larger kernels."""
    stride = conv.stride[axis]
    reach = conv.dilation[axis] * (conv.kernel_size[axis] - 1)
    if conv.padding == "same":
        padding = reach // 2
    elif "Same" in type(conv).__name__:  # timm's version pads dynamically
        padding = max((outputs - 1) * stride + reach + 1 - size, 0) // 2
    else:
        padding = int(conv.padding[axis]) if conv.padding != "valid" else 0
    before = padding - reach // 2
    return before, (outputs - 1) * stride + 1 - (size + before)


class SeriesAdapters(Adapter):
    """A norm and a 1x1 convolution per domain after each convolution, with a skip connection."""

    def __init__(self, network: nn.Module, num_domains: int) -> None:
        super().__init__()
        convs = adapted_convs(network)
        self.names = list(convs)
        self.units = nn.ModuleList(
            nn.ModuleList(_unit(conv.out_channels) for conv in convs.values()) for _ in range(num_domains)
        )

    @override
    def branches(self, domain: int) -> dict[str, Branch]:
        return {name: _after(unit) for name, unit in self._units(domain).items()}

    @override
    def cost(self, domain: int, run: Probe) -> Cost:
        units = {name: unit.state_dict() for name, unit in self._units(domain).items() if name in run.positions}
        weights = {name: tensors.pop("1.weight").numel() for name, tensors in units.items()}
        side = sum(t.numel() for unit in units.values() for key, t in unit.items() if not key.endswith(COUNTERS))
        macs = sum(count * run.positions[name] for name, count in weights.items())
        return Cost(weights=sum(weights.values()), side=side, macs=macs)

    def _units(self, domain: int) -> dict[str, nn.Module]:
        return dict(zip(self.names, cast("nn.ModuleList", self.units[domain]), strict=True))


def _unit(channels: int) -> nn.Module:
    conv = nn.Conv2d(channels, channels, 1, bias=False)
    nn.init.zeros_(conv.weight)
    return nn.Sequential(nn.BatchNorm2d(channels), conv)


def _after(unit: nn.Module) -> Branch:
    return lambda _x, y: y + unit(y)


def build(
    kind: type[ParallelAdapters | SeriesAdapters], backbone: Backbone, classes: Sequence[int], options: NoOptions
) -> list[Adapter]:
    """Add adapters of one kind to the convolutions, and norms per domain."""
    return [kind(backbone.network, len(classes)), DomainNorms(backbone.network, len(classes))]


PARALLEL = Method(
    summary="a 1x1 convolution in parallel to every larger one",
    paper="Rebuffi et al., CVPR 2018",
    cost="outputs x inputs per larger convolution",
    build=partial(build, ParallelAdapters),
    weight_lr=0.1,
)
SERIES = replace(
    PARALLEL,
    summary="a norm and a 1x1 convolution after every larger one",
    cost="outputs x outputs per larger convolution",
    paper="Rebuffi et al., NIPS 2017",
    build=partial(build, SeriesAdapters),
)
