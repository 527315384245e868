"""Count what a model file computes of a network."""

from collections import Counter
from dataclasses import replace

from prunus.backbone.probe import Probe
from prunus.graph.network import GraphNetwork
from prunus.graph.operations import Conv
from prunus.graph.shapes import value_shapes


def computed(network: GraphNetwork, probe: Probe) -> Probe:
    """Return the positions and products that a model file computes, which may leave out pixels that nothing reads.

    A transformer's classifier reads one token, so the file computes the last block for that token alone.
    """
    graph = network.graph
    shapes = value_shapes(graph, network.image_size)
    positions: Counter[str] = Counter()
    products = 0
    for operation, (_, height, width) in zip(graph, shapes[1:], strict=True):
        if isinstance(operation, Conv):
            positions[operation.layer] += height * width
        products += operation.macs([shapes[value] for value in operation.inputs])
    return replace(probe, positions=dict(positions), product_macs=products)
