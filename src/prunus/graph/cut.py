"""Remove the channels of a network that no domain needs; its answers stay the same.

Constants among the removed channels are folded into what read them: a bias, or kernels over ones where padding makes
them end at the border of the image.

Legend: D = domains, O = output channels, I = input channels of one group, K = classes, C = channels of the features.
"""

from collections.abc import Callable
from typing import Any

import numpy as np

from prunus.arrays import Bools, Floats, Integers
from prunus.graph.channels import ChannelFlow
from prunus.graph.network import GraphNetwork, Node, Tensors, without_neutral
from prunus.graph.operations import AppendZeros, Attention, ChannelRule, Conv, Operation, Rearrange

Channels = tuple[Integers, Integers]  # of a layer: output channels, and input channels of one group


def cut(network: GraphNetwork) -> GraphNetwork:
    """Return the network without channels that no domain reads or that are constant in every domain."""
    return cut_with_channels(network)[0]


def cut_with_channels(
    network: GraphNetwork, flow: ChannelFlow | None = None
) -> tuple[GraphNetwork, dict[str, Channels]]:
    """Return the cut network, and the channels of every layer that are left.

    Args:
        flow: what is known about the network's channels; by default, what follows from its numbers as floats.
    """
    cutting = _Cutting(network, flow or ChannelFlow(network))
    nodes = tuple(cutting.node(number, node) for number, node in enumerate(network.nodes))
    return GraphNetwork(nodes, network.image_size, cutting.weights, cutting.masks, cutting.heads()), cutting.channels


class _Cutting:
    """A network that is being cut, and the convolutions that are cut so far."""

    def __init__(self, network: GraphNetwork, flow: ChannelFlow) -> None:
        self.network = network
        self.flow = flow
        self.weights: dict[str, Floats] = {}
        self.masks: dict[str, Bools] = {}
        self.channels: dict[str, Channels] = {}

    def node(self, number: int, node: Node) -> Node:
        """Cut one node."""
        operation, kept = node.operation, self.flow.kept(number + 1)
        rule = self.network.rule(node)
        if rule == "mixed":  # no channel is removed
            return node
        if rule == "attended":
            return self._attention(operation, kept, node.tensors)
        tensors: Tensors = {role: tensor_D[:, kept] for role, tensor_D in node.tensors.items()}
        change = CHANGES.get(rule)
        if change is not None:
            operation, tensors = change(self, operation, kept, tensors)
        return Node(operation, without_neutral(tensors))

    def convolution(self, conv: Conv, outputs: Integers, tensors: Tensors) -> tuple[Operation, Tensors]:
        """Cut a convolution and fold the constants among its removed inputs into it."""
        weight, used_DOI = self.network.weights[conv.layer], self.flow.used[conv.layer]
        if conv.groups > 1:  # groups go as a whole, so no input of a remaining group is removed
            inputs = np.arange(conv.channels[1])
            groups = len(outputs) * conv.groups // conv.channels[0]
        else:
            inputs = self.flow.kept(conv.inputs[0])
            groups = 1
            tensors = self._with_constants(conv, outputs, tensors)
        self.weights[conv.layer] = np.ascontiguousarray(weight[outputs][:, inputs])
        self.masks[conv.layer] = used_DOI[:, outputs][:, :, inputs]
        self.channels[conv.layer] = (outputs, inputs)
        channels = (len(outputs), len(inputs))
        was = conv.was or conv.channels
        update = {"channels": channels, "groups": groups, "was": None if was == channels else was}
        return conv.model_copy(update=update), tensors

    def _with_constants(self, conv: Conv, outputs: Integers, tensors: Tensors) -> Tensors:
        constants_DI = self.flow.constants(conv.inputs[0])
        removed = np.flatnonzero(constants_DI.any(axis=0))
        kernels = self.network.weights[conv.layer][outputs][:, removed].astype(np.float64)
        factors_DOI = self.flow.live[conv.layer][:, outputs][:, :, removed] * constants_DI[:, None, removed]
        ones = np.einsum("oihw,doi->dohw", kernels, factors_DOI)
        if not ones.any():
            return tensors
        if any(conv.pads):
            return {**tensors, "ones": tensors.get("ones", 0.0) + ones}
        return {**tensors, "bias": tensors.get("bias", 0.0) + ones.sum(axis=(2, 3)) * tensors.get("scale", 1.0)}

    def appended(self, operation: AppendZeros, kept: Integers, tensors: Tensors) -> tuple[Operation, Tensors]:
        """Append fewer zeros."""
        count = len(kept) - len(self.flow.kept(operation.inputs[0]))
        return operation.model_copy(update={"count": count}), tensors

    def moved(self, operation: Rearrange, kept: Integers, tensors: Tensors) -> tuple[Operation, Tensors]:
        """Move the pixels of fewer channels."""
        sizes, target = (len(kept), *operation.sizes[1:]), (len(kept), *operation.target[1:])
        return operation.model_copy(update={"sizes": sizes, "target": target}), tensors

    def _attention(self, attention: Operation, kept: Integers, tensors: Tensors) -> Node:
        """Keep some heads, each with all its channels."""
        assert isinstance(attention, Attention)
        heads = np.flatnonzero(np.isin(np.arange(attention.heads) * attention.dims[1], kept))
        first, step = [], []
        for position, value in enumerate(attention.inputs):
            begins = np.searchsorted(self.flow.kept(value), attention.head_channels(position)[heads, 0])
            first.append(int(begins[0]))
            step.append(int(begins[1] - begins[0]) if len(heads) > 1 else attention.dims[position == 2])
        was = attention.was or attention.heads
        update = {"heads": len(heads), "first": tuple(first), "step": tuple(step)}
        update |= {"was": None if was == len(heads) else was}
        cut_tensors = {role: tensor_D[:, heads] for role, tensor_D in tensors.items()}
        return Node(attention.model_copy(update=update), without_neutral(cut_tensors))

    def heads(self) -> tuple[tuple[Floats, Floats], ...]:
        """Cut the classifiers and fold constant features into their biases."""
        last = len(self.network.nodes)
        kept, constants_DC = self.flow.kept(last), self.flow.constants(last)
        heads = []
        for (weight, bias), constants_C in zip(self.network.heads, constants_DC, strict=True):
            weight_KCP = weight.reshape(len(weight), len(constants_C), -1)
            folded = bias + weight_KCP.sum(axis=2, dtype=np.float64) @ constants_C
            small = np.ascontiguousarray(weight_KCP[:, kept].reshape(len(weight), -1))
            heads.append((small, folded.astype(np.float32)))
        return tuple(heads)


# operations that change with their channels; all others only lose rows of their tensors
CHANGES: dict[ChannelRule, Callable[[_Cutting, Any, Integers, Tensors], tuple[Operation, Tensors]]] = {
    "convolved": _Cutting.convolution,
    "appended": _Cutting.appended,
    "moved": _Cutting.moved,
}
