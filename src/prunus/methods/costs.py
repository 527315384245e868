"""What a network of any method costs: the adapters' claims, added up.

Legend: D = domains, O = output channels, I = input channels of one group.
"""

from __future__ import annotations

import numpy as np
import torch

from prunus.backbone.probe import Probe
from prunus.masks.adapter import Adapter, Cost, Shapes
from prunus.masks.copies import COUNTERS
from prunus.masks.layout import ConvShape, convolutions
from prunus.masks.network import MultiDomainNet
from prunus.measure.cost import CostReport, DomainCost, LayerCost, count_layer


@torch.no_grad()
def network_costs(net: MultiDomainNet, probe: Probe) -> CostReport:
    """Count what every domain uses of the backbone, what it adds, and what all keep together."""
    places = range(len(net.domains))
    shapes = [_reached(net.adapters, place, probe.shapes) for place in places]
    claims = [[adapter.cost(place, shapes[place]) for adapter in net.adapters] for place in places]
    layers = tuple(_layer(conv, claims, shapes, probe.positions[conv.name]) for conv in convolutions(net.network))
    own = tuple(
        DomainCost(
            bits=sum(32 * claim.weights + claim.switches for claim in claims[place]),
            side_bits=32 * sum(claim.side for claim in claims[place]) + _head_bits(net, place, probe.shapes, shapes),
            macs=sum(claim.macs for claim in claims[place]),
        )
        for place in places
    )
    shared = 32 * sum(max(claim.shared_weights for claim in row) for row in zip(*claims, strict=True))
    return CostReport(net.domains, layers, own, shared, _frozen_side_bits(net))


def _reached(adapters: list[Adapter], domain: int, shapes: Shapes) -> Shapes:
    """Keep the layers that a domain runs through; one that ends after the exit was not run to its end."""
    stop = next((stop for adapter in adapters if (stop := adapter.stop(domain)) is not None), None)
    names = list(shapes)
    return {name: shapes[name] for name in (names if stop is None else names[: names.index(stop) + 1])}


def _layer(conv: ConvShape, claims: list[list[Cost]], shapes: list[Shapes], positions: int) -> LayerCost:
    weights = (conv.out_channels, conv.in_channels, *conv.kernel)
    used_DOI, read = [], torch.zeros(weights, dtype=torch.bool)
    for place, row in enumerate(claims):
        in_use = torch.full(weights, conv.name in shapes[place])
        for claim in row:
            if conv.name in claim.masks:
                in_use = in_use & claim.masks[conv.name].cpu()
        used_DOI.append(in_use.any(-1).any(-1))
        if not any(conv.name in claim.owned for claim in row):
            read |= in_use
    mask_DOI: np.ndarray[tuple[int, ...], np.dtype[np.bool_]] = torch.stack(used_DOI).numpy()
    return count_layer(conv.name, mask_DOI, conv.kernel_area, positions, int(read.sum()))


def _head_bits(net: MultiDomainNet, place: int, all_shapes: Shapes, shapes: list[Shapes]) -> int:
    """Count the head, which a domain that leaves early does without."""
    leaves_early = len(shapes[place]) < len(all_shapes)
    return 0 if leaves_early else 32 * sum(parameter.numel() for parameter in net.heads[place].parameters())


def _frozen_side_bits(net: MultiDomainNet) -> int:
    """Count the backbone's own norms, biases and the like where at least one domain has none in their place."""
    replaced = set.intersection(*(set(net.tensors(domain)) for domain in net.domains))
    weights = {f"{conv.name}.weight" for conv in convolutions(net.network)}
    kept = [name for name in net.network.state_dict() if name not in replaced | weights and not name.endswith(COUNTERS)]
    return sum(32 * int(net.network.state_dict()[name].numel()) for name in kept)
