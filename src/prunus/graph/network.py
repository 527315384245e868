"""A graph with its numbers, for several domains at once.

Legend: D = domains, C = channels, O = output channels, I = input channels of one group.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from prunus.arrays import Bools, Doubles, Floats
from prunus.graph.operations import ChannelRule, Conv, Graph, Operation, Shape
from prunus.graph.shapes import value_shapes

Tensors = Mapping[str, Doubles]  # by role: (D, ...)


@dataclass(frozen=True)
class Node:
    """An operation and its tensors by role: (D, ...). A tensor that is missing would change nothing."""

    operation: Operation
    tensors: Tensors = field(default_factory=dict)


@dataclass(frozen=True)
class GraphNetwork:
    """What the domains of one network compute.

    Args:
        weights: layer -> (O, I, height, width), shared by all domains.
        masks: layer -> (D, O, I): the kernels that each domain uses.
        heads: of each domain, the weight and the bias of its classifier.
    """

    nodes: tuple[Node, ...]
    image_size: int
    weights: Mapping[str, Floats]
    masks: Mapping[str, Bools]
    heads: tuple[tuple[Floats, Floats], ...]

    @cached_property
    def graph(self) -> Graph:
        """Return the operations without their numbers."""
        return tuple(node.operation for node in self.nodes)

    @cached_property
    def shapes(self) -> list[Shape]:
        """Return the shape of every value, the image first."""
        return value_shapes(self.graph, self.image_size)

    def rule(self, node: Node) -> ChannelRule:
        """Return how channels flow through a node."""
        return node.operation.rule([self.shapes[value] for value in node.operation.inputs])

    def domain_tensors(self, domain: int, number: int) -> dict[str, Doubles | Floats]:
        """Return the tensors of one node for one domain; kernels that it does not use are zeros."""
        node = self.nodes[number]
        tensors: dict[str, Doubles | Floats] = {role: tensor_D[domain] for role, tensor_D in node.tensors.items()}
        if isinstance(node.operation, Conv):
            layer = node.operation.layer
            tensors["weight"] = self.weights[layer] * self.masks[layer][domain][:, :, None, None]
        return tensors


def scale_and_bias(tensors: Tensors, shape_DC: tuple[int, ...]) -> tuple[Doubles, Doubles]:
    """Return a scale and a bias, 1 and 0 where they are missing."""
    return tensors.get("scale", np.ones(shape_DC)), tensors.get("bias", np.zeros(shape_DC))


def without_neutral(tensors: Tensors) -> dict[str, Doubles]:
    """Drop tensors that change nothing: scales of all ones, and other tensors of all zeros."""
    neutral = {"scale": 1.0}
    return {role: tensor for role, tensor in tensors.items() if not (tensor == neutral.get(role, 0.0)).all()}
