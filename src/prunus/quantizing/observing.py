"""Run a network of floats on images and count the numbers of every value."""

import numpy as np
import torch
from torch import Tensor

from prunus.arrays import Floats
from prunus.graph.network import GraphNetwork
from prunus.integers.lifetimes import unused_after
from prunus.quantizing.images import Pictures
from prunus.quantizing.ranges import Histogram, make_histogram
from prunus.torch_graph.operations import compute

BATCH = 16
SAMPLE = 2**18  # numbers of one value that are counted, spread over all images


class _Watched:
    """The ends and a sample of one value's numbers."""

    def __init__(self) -> None:
        self.low, self.high = 0.0, 0.0
        self.parts: list[Floats] = []

    def add(self, numbers: Tensor, most: int) -> None:
        flat = numbers.reshape(-1)
        low, high = torch.aminmax(flat)
        self.low, self.high = min(self.low, float(low)), max(self.high, float(high))
        step = -(-len(flat) // most)
        step += step % 2 == 0 and step > 1  # an odd step does not meet the same columns of every row
        self.parts.append(flat[::step].numpy().copy())

    def histogram(self) -> Histogram:
        return make_histogram(np.concatenate(self.parts), self.low, self.high)


def observe(network: GraphNetwork, domain: int, images: Pictures) -> list[Histogram]:
    """Return a histogram of every value, the image first, of one domain."""
    tensors = [node_tensors(network, domain, number) for number in range(len(network.nodes))]
    unused = unused_after([node.operation.inputs for node in network.nodes])
    watched = [_Watched() for _ in range(len(network.nodes) + 1)]
    most = max(1, SAMPLE // -(-len(images) // BATCH))
    with torch.inference_mode():
        for batch in images.prepared(BATCH):
            values = {0: torch.from_numpy(batch)}
            watched[0].add(values[0], most)
            for number, node in enumerate(network.nodes):
                inputs = [values[value] for value in node.operation.inputs]
                values[number + 1] = compute(node.operation, inputs, tensors[number])
                watched[number + 1].add(values[number + 1], most)
                for value in unused[number]:
                    del values[value]
    return [value.histogram() for value in watched]


def node_tensors(network: GraphNetwork, domain: int, number: int) -> dict[str, Tensor]:
    """Return the tensors of one operation for one domain."""
    tensors = network.domain_tensors(domain, number)
    return {role: torch.from_numpy(np.ascontiguousarray(tensor, np.float32)) for role, tensor in tensors.items()}
