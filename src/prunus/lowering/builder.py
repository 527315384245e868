"""Build a graph from a traced network, node by node.

Legend: D = domains, C = channels.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import prod
from typing import Any

import numpy as np
import torch
from torch import Tensor, fx, nn
from torch.func import functional_call

from prunus.arrays import Doubles
from prunus.graph.network import Node, Tensors, without_neutral
from prunus.graph.operations import ActivationName, Affine, Operation, Shape
from prunus.lowering.trace import TracedNetwork
from prunus.lowering.views import View, in_order, pixels_of, positions_of, rearrangement

Activation = tuple[ActivationName, float]  # its name and its slope
Settings = dict[str, Any]  # of a layer, or arguments of a call, by name
UNORDERED = "reads numbers in an order that a graph cannot copy, such as after a flip, a roll or a list of positions"


@dataclass(frozen=True)
class Scores:
    """Products of two traced tensors, (..., q, d) and (..., d, k), before or after their softmax; not in the graph yet.

    Args:
        bias: what is added to them, in each domain.
    """

    first: str
    second: str
    factor: float = 1.0
    bias: tuple[Tensor, ...] | None = None
    is_softmax: bool = False


Traced = View | Scores | tuple[View, ...]


class NotInAGraphError(Exception):
    """A graph has no operation for what a network computes.

    Args:
        reason: the rest of a sentence that begins with a layer or an operation of the network.
    """

    def __init__(self, reason: str = "is not among those of a model file's graph") -> None:
        super().__init__(reason)


class GraphBuilder:
    """Builds the graph of one network.

    Args:
        domains: the network's parameters and buffers in each domain; convolution weights are ignored.
    """

    def __init__(self, traced: TracedNetwork, domains: Sequence[Mapping[str, Tensor]]) -> None:
        self.traced = traced
        self.domains = domains
        self.nodes: list[Node] = []
        self.value_shapes: list[Shape] = []
        self.values: dict[str, Traced] = {}  # that depend on the image: node of the trace -> what it shows
        self.constants: dict[str, list[Any]] = {}  # the rest: node of the trace -> its result in each domain

    def start(self, name: str) -> None:
        """Take the image, which a node of the trace is."""
        _, channels, height, width = self.traced.shapes[name]
        self.value_shapes.append((channels, height, width))
        self.values[name] = View(0)

    def first(self, node: fx.Node) -> str:
        """Return the name of the first value that a node reads."""
        return next(read.name for read in node.all_input_nodes if read.name in self.values)

    def view(self, name: str) -> View:
        """Return what a traced tensor shows, without a factor."""
        view = self.values[name]
        if isinstance(view, Scores):
            raise NotInAGraphError("reads products of two values, which a graph has only within attention")
        if not isinstance(view, View):
            raise NotInAGraphError
        if view.factor != 1.0:
            view = self._multiplied(view)
            self.values[name] = view
        return view

    def _multiplied(self, view: View) -> View:
        plain = replace(view, factor=1.0)
        assert view.positions is not None
        if not plain.shows_all(prod(self.value_shapes[view.value])):
            plain = View(self.copied(plain, tuple(view.positions.shape), (view.positions.numel(), 1, 1)))
        channels = self.value_shapes[plain.value][0]
        scale = np.full((len(self.domains), channels), view.factor)
        return replace(plain, value=self.activate(plain.value, ("none", 0.0), {"scale": scale}))

    def shape(self, node: fx.Node) -> tuple[int, ...]:
        """Return the shape of the first value that a node reads, for one image."""
        return self.traced.shapes[self.first(node)]

    def source(self, node: fx.Node) -> int:
        """Return the first value that a node reads, with its numbers in their order."""
        return self.ordered(self.first(node))

    def ordered(self, name: str) -> int:
        """Return a value with the numbers of a traced tensor in their order; an image keeps its sides."""
        return self.put_in_order(self.view(name), self.traced.shapes[name])

    def put_in_order(self, view: View, shape: Sequence[int]) -> int:
        """Return a value with the numbers of a view of a shape in their order."""
        target = (shape[1], shape[2], shape[3]) if len(shape) == 4 else None
        if view.positions is None and target in (None, self.value_shapes[view.value]):
            return view.value
        return self.copied(view, shape, target or (prod(shape), 1, 1))

    def pixelwise(self, name: str, axis: int) -> tuple[int, Tensor]:
        """Return a value with all channels of a traced tensor along an axis, and the pixel of each place beside it."""
        view, shape = self.view(name), self.traced.shapes[name]
        positions = view.over(shape)
        pixels = pixels_of(positions, axis, self.value_shapes[view.value])
        if pixels is not None:
            return view.value, pixels
        rest = positions.movedim(axis, 0)
        sides = [side for side in rest.shape[1:] if side > 1]
        height, width = sides if len(sides) == 2 else (1, prod(sides))
        value = self.copied(View(view.value, rest), rest.shape, (rest.shape[0], height, width))
        return value, torch.arange(rest[0].numel()).reshape(rest.shape[1:])

    def shown(self, value: int, pixels: Tensor, axis: int) -> View:
        """Return a view of a value with its channels along an axis."""
        return View(value, in_order(positions_of(pixels, axis, self.value_shapes[value][0])))

    def along(self, name: str, axis: int, make: Callable[[int], int]) -> View:
        """Change every pixel by itself: `make` gets a value with all channels along an axis, and returns another."""
        view, shape = self.view(name), self.traced.shapes[name]
        axis %= len(shape)
        if view.positions is None and axis == 1 and (*shape[1:], 1, 1)[:3] == self.value_shapes[view.value]:
            return View(make(view.value))
        value, pixels = self.pixelwise(name, axis)
        return self.shown(make(value), pixels, axis)

    def whole(self, name: str) -> View:
        """Return a view of a traced tensor that shows every number of its value once."""
        view = self.view(name)
        return view if view.shows_all(prod(self.value_shapes[view.value])) else View(self.ordered(name))

    def each(self, name: str, make: Callable[[int], int]) -> View:
        """Change every number of a traced tensor by itself."""
        view, shape = self.view(name), self.traced.shapes[name]
        if view.shows_all(prod(self.value_shapes[view.value])):
            return replace(view, value=make(view.value))
        axis = 1 if len(shape) in (2, 4) else len(shape) - 1
        return self.along(name, axis, make)

    def copied(self, view: View, shape: Sequence[int], target: Shape) -> int:
        """Append a copy of some numbers in their order, as a value of another shape, unless it is the same."""
        positions = view.over(shape).flatten()
        if target == self.value_shapes[view.value] and in_order(positions) is None:
            return view.value
        operation = rearrangement(view.value, positions, target)
        if operation is None:
            raise NotInAGraphError(UNORDERED)
        return self.add(operation)

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
        self.value_shapes.append(operation.shape([self.value_shapes[value] for value in operation.inputs]))
        return len(self.nodes)

    def activate(self, source: int, activation: Activation, tensors: Tensors | None = None) -> int:
        """Append a scale, a bias and an activation, unless they change nothing."""
        name, slope = activation
        if name == "none" and not without_neutral(tensors or {}):
            return source
        return self.add(Affine(op="affine", inputs=(source,), activation=name, slope=slope), tensors)

    def evaluate(self, node: fx.Node) -> list[Any]:
        """Compute what does not depend on the image, domain by domain."""
        return [self._evaluate(node, domain) for domain in range(len(self.domains))]

    def _evaluate(self, node: fx.Node, domain: int) -> Any:  # noqa: ANN401  # a tensor, or a tuple of them
        if node.op == "get_attr":
            name = str(node.target)
            return self.domains[domain][name] if name in self.domains[domain] else self.traced.constants[name]
        # what depends on the image is only read for its shape or its type
        args, kwargs = fx.node.map_arg(self.arguments(node, domain), self._like)
        layer = self.traced.layer(node)
        if layer is None:
            return called(self.traced, node)(*args, **kwargs)
        own = {key: self.domains[domain][f"{node.target}.{key}"] for key in layer.state_dict()}
        return functional_call(layer, own, args, kwargs)

    def _like(self, node: fx.Node) -> Tensor:
        """Return a tensor of the shape and the type of what a node computes."""
        return torch.zeros(self.traced.shapes[node.name], dtype=self.traced.types[node.name])

    def arguments(self, node: fx.Node, domain: int) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Return the arguments of a call, with constants in place of the nodes that compute them."""
        args, kwargs = fx.node.map_arg(
            (node.args, dict(node.kwargs)),
            lambda read: self.constants[read.name][domain] if read.name in self.constants else read,
        )
        return tuple(args), dict(kwargs)


# None: a graph has no operation for the node; a rule that can say more about it raises a NotInAGraphError
Rule = Callable[[GraphBuilder, fx.Node], Traced | int | None]


def called(traced: TracedNetwork, node: fx.Node) -> Callable[..., Any]:
    """Return the function that a node calls."""
    layer = traced.layer(node)
    if layer is not None:
        return layer
    if node.op == "call_method":
        method: Callable[..., Any] = getattr(Tensor, str(node.target))
        return method
    assert callable(node.target)
    return node.target


def layer_settings(layer: nn.Module, names: Sequence[str]) -> Settings:
    """Return a layer's settings by name; those that it does not have are missing."""
    return {name: getattr(layer, name) for name in names if hasattr(layer, name)}
