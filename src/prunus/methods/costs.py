"""The costs of a network of any method, added up from what its adapters claim.

Legend: D = domains, O = output channels, I = input channels of one group.
"""

import torch

from prunus.backbone.probe import Probe
from prunus.backbone.zoo import Backbone
from prunus.masks.adapter import Adapter, Cost
from prunus.masks.layer_copies import COUNTERS
from prunus.masks.layout import ConvShape, convolutions, switch_layout
from prunus.masks.network import MultiDomainNet
from prunus.measure.cost import CostReport, DomainCost, LayerCost, count_layer


def dense_costs(backbone: Backbone) -> CostReport:
    """Count the costs of a backbone without any domain."""
    layers = []
    for conv in switch_layout(backbone.network).convs:
        positions = backbone.probe.positions.get(conv.name, 0)
        layers.append(LayerCost(conv.name, conv.num_kernels, conv.kernel_area, positions, (), 0, 0, 0))
    return CostReport((), tuple(layers), (), product_macs=backbone.probe.product_macs)


@torch.no_grad()
def network_costs(net: MultiDomainNet, probe: Probe) -> CostReport:
    """Count what every domain uses of the backbone, what it adds, and what all domains share."""
    reached = [_reached(net.adapters, index, probe) for index in range(len(net.domains))]
    claims = [[adapter.cost(index, run) for adapter in net.adapters] for index, run in enumerate(reached)]
    layers = tuple(
        _layer(conv, claims, reached, probe.positions.get(conv.name, 0)) for conv in convolutions(net.network)
    )
    own = []
    for index, row in enumerate(claims):
        exits_early = len(reached[index].shapes) < len(probe.shapes)  # and does not use the head
        head = 0 if exits_early else sum(parameter.numel() for parameter in net.heads[index].parameters())
        bits = sum(32 * claim.weights + claim.switches for claim in row)
        side_bits = 32 * (head + sum(claim.side for claim in row))
        own.append(DomainCost(bits, side_bits, sum(claim.macs for claim in row)))
    shared = 32 * sum(max(claim.shared_weights for claim in row) for row in zip(*claims, strict=True))
    return CostReport(net.domains, layers, tuple(own), shared, _frozen_side_bits(net, reached), probe.product_macs)


def _reached(adapters: list[Adapter], domain: int, probe: Probe) -> Probe:
    """Keep the layers that a domain runs up to its exit, if it has one."""
    stop = next((stop for adapter in adapters if (stop := adapter.stop(domain)) is not None), None)
    names = list(probe.shapes)
    reached = names if stop is None else names[: names.index(stop) + 1]
    positions = {name: count for name, count in probe.positions.items() if name in set(reached)}
    return Probe(probe.num_features, positions, {name: probe.shapes[name] for name in reached})


def _layer(conv: ConvShape, claims: list[list[Cost]], reached: list[Probe], positions: int) -> LayerCost:
    shape = (conv.out_channels, conv.in_channels, *conv.kernel)
    used_DOI = []
    read = torch.zeros(shape, dtype=torch.bool)
    for row, run in zip(claims, reached, strict=True):
        in_use = torch.full(shape, conv.name in run.shapes)
        for claim in row:
            if conv.name in claim.masks:
                in_use = in_use & claim.masks[conv.name].cpu()
        used_DOI.append(in_use.any(-1).any(-1))
        if not any(conv.name in claim.owned for claim in row):
            read |= in_use
    return count_layer(conv.name, torch.stack(used_DOI).numpy(), conv.kernel_area, positions, int(read.sum()))


def _frozen_side_bits(net: MultiDomainNet, reached: list[Probe]) -> int:
    """Count the backbone's norms, biases and the like that some domain runs and does not replace."""
    state = net.network.state_dict()
    needed: set[str] = set()
    for domain, run in zip(net.domains, reached, strict=True):
        replaced = net.tensors(domain)
        needed |= {name for name in state if name not in replaced and _is_run(name, run)}
    weights = {f"{conv.name}.weight" for conv in convolutions(net.network)}
    return sum(32 * int(state[name].numel()) for name in needed - weights if not name.endswith(COUNTERS))


def _is_run(name: str, run: Probe) -> bool:
    """Return whether a tensor's layer, or a layer inside it, is run; the network itself always is."""
    parent = name.rpartition(".")[0]
    return parent in run.shapes or not parent or any(layer.startswith(f"{parent}.") for layer in run.shapes)
