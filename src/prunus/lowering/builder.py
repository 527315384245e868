"""Build a graph from a traced network, node by node.

Legend: D = domains, C = channels.
"""

import operator
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor, fx, nn

from prunus.arrays import Doubles
from prunus.graph.network import Node, Tensors, without_neutral
from prunus.graph.operations import ActivationName, Affine, Operation
from prunus.lowering.trace import TracedNetwork

Activation = tuple[ActivationName, float]  # its name and its slope
Settings = dict[str, Any]  # of a layer, or arguments of a call, by name


class GraphBuilder:
    """Builds the graph of one network.

    Args:
        domains: the network's parameters and buffers in each domain; convolution weights are ignored.
    """

    def __init__(self, traced: TracedNetwork, domains: Sequence[Mapping[str, Tensor]]) -> None:
        self.traced = traced
        self.domains = domains
        self.nodes: list[Node] = []
        self.values: dict[str, int] = {}  # that depend on the image: node of the trace -> value of the graph
        self.constants: dict[str, list[Any]] = {}  # the rest: node of the trace -> its result in each domain

    def source(self, node: fx.Node) -> int:
        """Return the first value that a node reads."""
        return self.values[self._first_input(node)]

    def shape(self, node: fx.Node) -> tuple[int, ...]:
        """Return the shape of the first value that a node reads, for one image."""
        return self.traced.shapes[self._first_input(node)]

    def _first_input(self, node: fx.Node) -> str:
        return next(read.name for read in node.all_input_nodes if read.name in self.values)

    def settings(self, node: fx.Node, names: Sequence[str]) -> Settings:
        """Return the settings of a layer, or the arguments of a call after the first, by name."""
        layer = self.traced.layer(node)
        if layer is not None:
            return layer_settings(layer, names)
        named = {name: argument for name, argument in node.kwargs.items() if name in names}
        return dict(zip(names, node.args[1:], strict=False)) | named

    def tensors(self, name: str) -> Doubles | None:
        """Return a parameter or buffer of the network as every domain has it, (D, ...), if there is one."""
        tensors = [domain[name] for domain in self.domains if domain.get(name) is not None]
        stacked: Doubles | None = torch.stack(tensors).double().numpy() if tensors else None
        return stacked

    def add(self, operation: Operation, tensors: Mapping[str, Doubles | None] | None = None) -> int:
        """Append an operation and return the value that it computes."""
        present = {role: tensor for role, tensor in (tensors or {}).items() if tensor is not None}
        self.nodes.append(Node(operation, without_neutral(present)))
        return len(self.nodes)

    def activate(self, source: int, activation: Activation, tensors: Tensors | None = None) -> int:
        """Append a scale, a bias and an activation, unless they change nothing."""
        name, slope = activation
        if name == "none" and not without_neutral(tensors or {}):
            return source
        return self.add(Affine(op="affine", inputs=(source,), activation=name, slope=slope), tensors)

    def by_channel(self, constants: Sequence[Any], channels: int) -> Doubles | None:
        """Return constants as a number per channel, (D, C), if they are numbers or (1, C, 1, 1) tensors."""
        rows = []
        for constant in constants:
            tensor = torch.as_tensor(constant) if isinstance(constant, (int, float, Tensor)) else None
            per_channel = ((1, channels, 1, 1), (channels, 1, 1))
            if tensor is None or (tensor.numel() > 1 and tuple(tensor.shape) not in per_channel):
                return None
            rows.append(tensor.double().reshape(-1).expand(channels).numpy())
        return np.stack(rows)

    def evaluate(self, node: fx.Node) -> list[Any]:
        """Compute what does not depend on the image, domain by domain."""
        return [self._evaluate(node, domain) for domain in range(len(self.domains))]

    def _evaluate(self, node: fx.Node, domain: int) -> Any:  # noqa: ANN401  # a tensor, a number, a shape
        if is_size(node):
            shape = (None, *self.shape(node)[1:])  # the number of images is not known
            return shape[int(str(node.args[1]))] if len(node.args) > 1 and node.target == "size" else shape
        if node.op == "get_attr":
            tensor = self.domains[domain].get(str(node.target))
            return operator.attrgetter(str(node.target))(self.traced.module) if tensor is None else tensor
        function: Any = self.traced.layer(node)
        if function is None:
            function = getattr(Tensor, str(node.target)) if node.op == "call_method" else node.target
        args, kwargs = fx.node.map_arg((node.args, dict(node.kwargs)), lambda read: self.constants[read.name][domain])
        try:
            return function(*args, **kwargs)
        except TypeError:
            return None  # it depends on the number of images: whatever reads it is refused


Rule = Callable[[GraphBuilder, fx.Node], int | None]  # returns the value that a node becomes; None if it has none


def layer_settings(layer: nn.Module, names: Sequence[str]) -> Settings:
    """Return a layer's settings by name; those that it does not have are missing."""
    return {name: getattr(layer, name) for name in names if hasattr(layer, name)}


def is_size(node: fx.Node) -> bool:
    """Return whether a node asks for the size of something."""
    return node.target == "size" or (node.target is getattr and str(node.args[1]) == "shape")
