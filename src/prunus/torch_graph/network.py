"""A model file as one torch module, with the numbers of its domains."""

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor, nn

from prunus.arrays import Values
from prunus.errors import UnknownNameError
from prunus.graph.network import GraphNetwork
from prunus.graph.operations import Conv
from prunus.torch_graph.operations import compute


class TorchNetwork(nn.Module):
    """A pruned network that serves one or several domains.

    Every layer's kernels are one parameter that all domains share. Masks are buffers: training does not change them.
    Norms are folded into scales and biases, with a row per domain.
    """

    def __init__(self, network: GraphNetwork, domains: Sequence[str]) -> None:
        super().__init__()
        self.domains = tuple(domains)
        self.graph = network.graph
        self.layers = {layer: f"layer{number}" for number, layer in enumerate(network.weights)}
        self.weights = nn.ParameterDict({key: _parameter(network.weights[layer]) for layer, key in self.layers.items()})
        for layer, key in self.layers.items():
            self.register_buffer(f"mask_{key}", torch.from_numpy(network.masks[layer][..., None, None].copy()))
        self.roles = [tuple(node.tensors) for node in network.nodes]
        self.tensors = nn.ParameterDict()
        for number, node in enumerate(network.nodes):
            for role, tensor_D in node.tensors.items():
                self.tensors[f"{number}_{role}"] = _parameter(tensor_D)
        self.heads = nn.ModuleList()
        for weight, bias in network.heads:
            head = nn.Linear(weight.shape[1], weight.shape[0])
            head.weight, head.bias = _parameter(weight), _parameter(bias)
            self.heads.append(head)

    def forward(self, images: Tensor, domain: str | None = None) -> Tensor:
        """Classify prepared images of one domain: logits. A network of one domain needs no name."""
        name = self.domains[0] if domain is None and len(self.domains) == 1 else str(domain)
        if name not in self.domains:
            raise UnknownNameError("domain", name, self.domains)
        index = self.domains.index(name)
        values = [images]
        for number, operation in enumerate(self.graph):
            inputs = [values[value] for value in operation.inputs]
            values.append(compute(operation, inputs, self._tensors(index, number)))
        logits: Tensor = self.heads[index](values[-1].flatten(1))
        return logits

    def _tensors(self, domain: int, number: int) -> dict[str, Tensor]:
        operation = self.graph[number]
        tensors = {role: self.tensors[f"{number}_{role}"][domain] for role in self.roles[number]}
        if isinstance(operation, Conv):
            key = self.layers[operation.layer]
            tensors["weight"] = self.weights[key] * self.get_buffer(f"mask_{key}")[domain]
        return tensors


def _parameter(array: Values) -> nn.Parameter:
    return nn.Parameter(torch.from_numpy(np.array(array, dtype=np.float32)))
