"""Whether a model file can hold a network, and the network's masks."""

from __future__ import annotations

import numpy as np

from prunus.arrays import Bools
from prunus.errors import BundleError
from prunus.masks.layer_copies import DomainNorms
from prunus.masks.layout import convolutions
from prunus.masks.network import MultiDomainNet
from prunus.masks.switches import Switches


def is_packable(net: MultiDomainNet) -> bool:
    """Tell whether a model file can hold what a method learned: kernel switches and norms."""
    return all(
        isinstance(adapter, DomainNorms) or (type(adapter) is Switches and adapter.layout.granularity != "weight")
        for adapter in net.adapters
    )


def check_packable(net: MultiDomainNet) -> None:
    """Refuse a method that changes more than a model file holds."""
    if not is_packable(net):
        raise BundleError(
            "a model file holds kernel switches, norms and classifiers, and this run's method learns more than that; "
            "measure the run with prunus evaluate, or train one with a budget"
        )


def network_masks(net: MultiDomainNet) -> dict[str, Bools]:
    """Give a network's masks as arrays, all on where its method has no switches: layer -> (domain, output, input)."""
    if net.switches:
        shapes = {conv.name: (conv.out_channels, conv.in_channels) for conv in net.switches.layout.convs}
        return {
            layer: mask[..., 0, 0].expand(-1, *shapes[layer]).cpu().numpy()
            for layer, mask in net.switches.layer_masks().items()
        }
    return {
        c.name: np.ones((len(net.domains), c.out_channels, c.in_channels), np.bool_) for c in convolutions(net.network)
    }
