"""Norms per domain that carry the switches of whole filters during training."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace

from torch import Tensor, nn
from typing_extensions import override

from prunus.backbone.zoo import Backbone
from prunus.masks.layer_copies import DomainNorms
from prunus.masks.layout import SwitchLayout, switch_layout
from prunus.masks.norms_after import norms_after
from prunus.masks.switches import Switches

CHANNELS = ("filter", "input_channel")  # granularities that switch whole channels


def gated_layout(backbone: Backbone, granularity: str) -> SwitchLayout:
    """Lay out the switches of a backbone, and name the norms that carry those of whole filters."""
    layout = replace(switch_layout(backbone.network, granularity), positions=backbone.probe.positions)
    if granularity not in CHANNELS:
        return layout
    after = norms_after(backbone.network, backbone.preprocess.size)
    whole = [conv.name for conv in layout.convs if layout.shape(conv)[1:] == (1, 1, 1)]
    return replace(layout, norms={name: after[name] for name in whole if name in after})


class GatedNorms(DomainNorms):
    """Norms per domain, whose weights are multiplied by the switches of the filters before them during training.

    A batch norm undoes any scaling of a filter, so a switch before it gets no gradient, and every penalty turns it off.
    A switch behind the normalization computes the same, the norm's bias where the filter is off, and gets a gradient
    whether it is on or off, unless that bias leaves the next activation flat. Outside training the switches multiply
    the kernels.
    """

    def __init__(self, network: nn.Module, num_domains: int, switches: Switches) -> None:
        super().__init__(network, num_domains)
        self._switches = (switches,)  # torch would register a module of its own a second time
        self._latest = 0

    @override
    def tensors(self, domain: int, frozen: Mapping[str, Tensor]) -> dict[str, Tensor]:
        tensors = super().tensors(domain, frozen)
        (switches,) = self._switches
        if self.training and switches.layout.norms:
            self._latest = domain
            bits = switches.bits(domain)
            for conv, norm in switches.layout.norms.items():
                tensors[f"{norm}.weight"] = tensors[f"{norm}.weight"] * bits[conv].flatten()
        return tensors

    @override
    @contextmanager
    def computing(self) -> Iterator[None]:
        """Forget the means of filters that are off: outside training these filters compute 0."""
        yield
        (switches,) = self._switches
        if self.training and switches.layout.norms:
            masks = switches.layout.views(switches.masks()[self._latest])
            own = self.copies.of(self._latest)
            for conv, norm in switches.layout.norms.items():
                # .data: the backward pass still holds the means, but does not use those of a batch norm in training
                own[f"{norm}.running_mean"].data.mul_(masks[conv].flatten())
