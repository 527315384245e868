"""What is known while a network is turned into a graph: values, constants and the operations so far.

Legend: D = domains, C = channels.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor, fx

from prunus.arrays import Doubles
from prunus.graph.operations import Affine, Operation
from prunus.lowering.activations import Activation
from prunus.lowering.draft import Draft, without_neutral
from prunus.lowering.trace import TracedNetwork
from prunus.masks.network import MultiDomainNet

Step = Callable[["Lowering", fx.Node], int | None]  # gives the value that a node makes; None: a graph cannot


class Lowering:
    """One network on its way to a graph."""

    def __init__(self, net: MultiDomainNet, traced: TracedNetwork, was: Mapping[str, tuple[int, int]]) -> None:
        self.traced, self.was = traced, was
        self.domains = [dict(net.network.state_dict()) | net.tensors(domain) for domain in net.domains]
        self.drafts: list[Draft] = []
        self.values: dict[str, int] = {}  # what depends on the image: node -> value
        self.constants: dict[str, list[Any]] = {}  # what does not: node -> by domain

    def source(self, node: fx.Node) -> int:
        """Give the (first) value that a node reads."""
        return next(self.values[each.name] for each in node.all_input_nodes if each.name in self.values)

    def shape(self, node: fx.Node) -> tuple[int, ...]:
        """Give the shape of what a node reads (first), for one image."""
        return next(self.traced.shapes[each.name] for each in node.all_input_nodes if each.name in self.values)

    def tensors(self, name: str) -> Doubles | None:
        """Give a tensor of the network as every domain has it: (D, ...)."""
        found = [tensors.get(name) for tensors in self.domains]
        return None if found[0] is None else torch.stack([each for each in found if each is not None]).double().numpy()

    def add(self, operation: Operation, tensors: Mapping[str, Doubles] | None = None) -> int:
        """Append an operation and give the value that it makes."""
        self.drafts.append(Draft(operation, without_neutral(tensors or {})))
        return len(self.drafts)

    def activate(self, source: int, activation: Activation, tensors: Mapping[str, Doubles] | None = None) -> int:
        """Append a scale, a bias and an activation, unless they change nothing."""
        name, slope = activation
        if name == "none" and not without_neutral(tensors or {}):
            return source
        return self.add(Affine(op="affine", inputs=(source,), activation=name, slope=slope), tensors)

    def by_channel(self, constants: Sequence[Any], channels: int) -> Doubles | None:
        """Give constants as a number per channel, (D, C), if they are that: numbers, or (1, C, 1, 1) tensors."""
        rows = []
        for each in constants:
            tensor = torch.as_tensor(each, dtype=torch.float64) if isinstance(each, (int, float, Tensor)) else None
            if tensor is None or (tensor.numel() > 1 and tuple(tensor.shape) not in _per_channel(channels)):
                return None
            rows.append(tensor.reshape(-1).expand(channels).numpy())
        return np.stack(rows)

    def evaluate(self, node: fx.Node) -> list[Any]:
        """Compute what does not depend on the image, domain by domain."""
        return [self._evaluate(node, place) for place in range(len(self.domains))]

    def _evaluate(self, node: fx.Node, place: int) -> Any:  # noqa: ANN401  # a tensor, a number, a shape
        if is_size(node):
            shape = (None, *self.shape(node)[1:])  # no one knows how many images will come
            return shape[int(str(node.args[1]))] if len(node.args) > 1 and node.target == "size" else shape
        if node.op == "get_attr":
            found = self.domains[place].get(str(node.target))
            return operator.attrgetter(str(node.target))(self.traced.module) if found is None else found
        function: Any = self.traced.layer(node)
        if function is None:
            function = getattr(Tensor, str(node.target)) if node.op == "call_method" else node.target
        given: Any = fx.node.map_arg((node.args, dict(node.kwargs)), lambda n: self.constants[n.name][place])
        try:
            return function(*given[0], **given[1])
        except TypeError:
            return None  # it depends on the number of images: whoever reads it is refused


def is_size(node: fx.Node) -> bool:
    """Tell whether a node asks for the size of something."""
    return node.target == "size" or (node.target is getattr and str(node.args[1]) == "shape")


def arguments(node: fx.Node, names: Sequence[str]) -> dict[str, Any]:
    """Give a function's arguments after the first by name."""
    return dict(zip(names, node.args[1:], strict=False)) | {k: v for k, v in node.kwargs.items() if k in names}


def _per_channel(channels: int) -> tuple[tuple[int, ...], ...]:
    return (1, channels, 1, 1), (channels, 1, 1)
