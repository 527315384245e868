"""What a network of any method costs: the adapters' claims, added up.

Legend: D = domains, O = output channels, I = input channels of one group.
"""

from __future__ import annotations

import numpy as np
import torch

from prunus.backbone.probe import Probe
from prunus.masks.adapter import Adapter, Cost
from prunus.masks.layer_copies import COUNTERS
from prunus.masks.layout import ConvShape, convolutions
from prunus.masks.network import MultiDomainNet
from prunus.measure.cost import CostReport, DomainCost, LayerCost, count_layer


@torch.no_grad()
def network_costs(net: MultiDomainNet, probe: Probe) -> CostReport:
    """Count what every domain uses of the backbone, what it adds, and what all keep together."""
    runs = [_reached(net.adapters, place, probe) for place in range(len(net.domains))]
    claims = [[adapter.cost(place, run) for adapter in net.adapters] for place, run in enumerate(runs)]
    layers = tuple(_layer(conv, claims, runs, probe.positions[conv.name]) for conv in convolutions(net.network))
    own = []
    for place, row in enumerate(claims):
        leaves_early = len(runs[place].shapes) < len(probe.shapes)  # and does without the head
        head = 0 if leaves_early else sum(parameter.numel() for parameter in net.heads[place].parameters())
        bits = sum(32 * claim.weights + claim.switches for claim in row)
        side_bits = 32 * (head + sum(claim.side for claim in row))
        own.append(DomainCost(bits, side_bits, sum(claim.macs for claim in row)))
    shared = 32 * sum(max(claim.shared_weights for claim in row) for row in zip(*claims, strict=True))
    return CostReport(net.domains, layers, tuple(own), shared, _frozen_side_bits(net, runs))


def _reached(adapters: list[Adapter], domain: int, probe: Probe) -> Probe:
    """Keep the layers that a domain runs through; one that ends after the exit was not run to its end."""
    stop = next((stop for adapter in adapters if (stop := adapter.stop(domain)) is not None), None)
    names = list(probe.shapes)
    reached = names if stop is None else names[: names.index(stop) + 1]
    positions = {name: count for name, count in probe.positions.items() if name in set(reached)}
    return Probe(probe.num_features, positions, {name: probe.shapes[name] for name in reached})


def _layer(conv: ConvShape, claims: list[list[Cost]], runs: list[Probe], positions: int) -> LayerCost:
    weights = (conv.out_channels, conv.in_channels, *conv.kernel)
    used_DOI, read = [], torch.zeros(weights, dtype=torch.bool)
    for place, row in enumerate(claims):
        in_use = torch.full(weights, conv.name in runs[place].shapes)
        for claim in row:
            if conv.name in claim.masks:
                in_use = in_use & claim.masks[conv.name].cpu()
        used_DOI.append(in_use.any(-1).any(-1))
        if not any(conv.name in claim.owned for claim in row):
            read |= in_use
    mask_DOI: np.ndarray[tuple[int, ...], np.dtype[np.bool_]] = torch.stack(used_DOI).numpy()
    return count_layer(conv.name, mask_DOI, conv.kernel_area, positions, int(read.sum()))


def _frozen_side_bits(net: MultiDomainNet, runs: list[Probe]) -> int:
    """Count the backbone's norms, biases and the like that some domain runs through and has nothing in the place of."""
    weights = {f"{conv.name}.weight" for conv in convolutions(net.network)}
    needed: set[str] = set()
    for domain, run in zip(net.domains, runs, strict=True):
        own = net.tensors(domain)
        needed |= {name for name in net.network.state_dict() if name not in own and _is_run(name, run)}
    state = net.network.state_dict()
    return sum(32 * int(state[name].numel()) for name in needed - weights if not name.endswith(COUNTERS))


def _is_run(name: str, run: Probe) -> bool:
    """Tell whether a tensor's layer, or a layer inside it, is run; the network itself always is."""
    layer = name.rpartition(".")[0]
    return layer in run.shapes or not layer or any(each.startswith(f"{layer}.") for each in run.shapes)
