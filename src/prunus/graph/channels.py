"""Follow every channel through a graph: what is constant in a domain, what is read, what must stay or go together.

Forward, a channel is constant in a domain where no kernel that the domain uses feeds it: its value then comes from
biases alone. Backward, a channel is read in a domain where the features, or a kernel whose output is read, depend on
it. Values that are added or multiplied share their channels: one can be removed only where all can.

Legend: D = domains, C = channels of a value, O = output channels, I = input channels of one group, G = groups.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from prunus.arrays import Bools, Doubles, Integers
from prunus.graph.compute import compute
from prunus.graph.network import GraphNetwork, Node
from prunus.graph.operations import Attention, ChannelRule, Conv, Graph
from prunus.graph.shapes import value_shapes

HELD = -1  # the unit of channels that always stay


@dataclass
class Channels:
    """The channels of one value; equal `ids` (C,) are one channel, `values` are 0 where a channel is not constant."""

    ids: Integers
    constant: Bools  # (D, C)
    values: Doubles  # (D, C)
    read: Bools = field(init=False)  # (D, C)

    def __post_init__(self) -> None:
        self.read = np.zeros_like(self.constant)
        self.values = np.where(self.constant, self.values, 0.0)

    @property
    def zero(self) -> Bools:
        """Return the channels that are zero at every pixel: (D, C)."""
        zero: Bools = self.constant & (self.values == 0)
        return zero


class ChannelFlow:
    """What is known about every channel of every value of a network.

    Args:
        live: layer -> (D, O, I): the kernels that a domain uses and that are not all zeros.
        used: layer -> (D, O, I): those whose output the domain reads.
    """

    def __init__(self, network: GraphNetwork) -> None:
        self._network = network
        self._parents: list[int] = []  # union-find over channel ids
        self._held: set[int] = set()  # ids that stay whatever reads them
        self.live = {layer: _live(network, layer) for layer in network.weights}
        self.used = {layer: np.zeros_like(live_DOI) for layer, live_DOI in self.live.items()}
        self._first: dict[str, tuple[Integers, Integers]] = {}  # layer -> ids of its inputs and outputs
        image = self._unknown(self._fresh(3))
        self._held |= set(image.ids.tolist())  # every network takes images of three channels
        self.values = [image]
        for node, shape in zip(network.nodes, network.shapes[1:], strict=True):
            inputs = [self.values[value] for value in node.operation.inputs]
            self.values.append(FORWARD[network.rule(node)](self, node, inputs, shape[0]))
        self.values[-1].read[:] = True
        for number, node in reversed(list(enumerate(network.nodes))):
            inputs = [self.values[value] for value in node.operation.inputs]
            BACKWARD[network.rule(node)](self, node, inputs, self.values[number + 1])
        self._kept = self._find_kept()

    def kept(self, value: int) -> Integers:
        """Return the indices of the channels of a value that stay."""
        stays = [self._root(channel) in self._kept for channel in self.values[value].ids.tolist()]
        return np.flatnonzero(stays)

    def constants(self, value: int) -> Doubles:
        """Return the values of the constant channels that go, 0 for all other channels: (D, C)."""
        constants = self.values[value].values.copy()
        constants[:, self.kept(value)] = 0.0
        return constants

    def layer_roots(self, layer: str) -> tuple[list[int], list[int]]:
        """Return for the inputs and outputs of a layer which channels stay or go together: those of equal numbers."""
        inputs, outputs = self._first[layer]
        return [self._root(channel) for channel in inputs.tolist()], [self._root(c) for c in outputs.tolist()]

    def always_stays(self, root: int) -> bool:
        """Return whether channels stay whatever is switched off: those of images, features and mixed values."""
        return root in self._fixed_roots

    @cached_property
    def _fixed_roots(self) -> set[int]:
        return {self._root(channel) for channel in (*self._held, *self.values[-1].ids.tolist())}

    def _find_kept(self) -> set[int]:
        """Keep what is held or what a domain reads and cannot know in advance; of every value at least one channel."""
        kept = {self._root(channel) for channel in self._held}
        for value in self.values:
            needed = (value.read & ~value.constant).any(axis=0)
            kept |= {self._root(channel) for channel in value.ids[needed].tolist()}
        for value in self.values:
            if not any(self._root(channel) in kept for channel in value.ids.tolist()):
                kept.add(self._root(int(value.ids[0])))
        return kept

    def _fresh(self, count: int) -> Integers:
        first = len(self._parents)
        self._parents += range(first, first + count)
        return np.arange(first, first + count)

    def _unknown(self, ids: Integers) -> Channels:
        shape_DC = (len(self._network.heads), len(ids))
        return Channels(ids, np.zeros(shape_DC, np.bool_), np.zeros(shape_DC))

    def _root(self, channel: int) -> int:
        while self._parents[channel] != channel:
            self._parents[channel] = channel = self._parents[self._parents[channel]]
        return channel

    def _tie(self, channels: Iterable[int]) -> None:
        """Let channels stay or go together."""
        roots = {self._root(channel) for channel in channels}
        for root in roots:
            self._parents[root] = min(roots)

    def _tie_pairs(self, first: Integers, second: Integers) -> None:
        for pair in zip(first.tolist(), second.tolist(), strict=True):
            self._tie(pair)

    def convolve(self, node: Node, inputs: Sequence[Channels], count: int) -> Channels:
        """Find outputs that only constants feed; a constant other than 0 ends where the padding of zeros starts."""
        conv, source = node.operation, inputs[0]
        assert isinstance(conv, Conv)
        is_padded, groups = any(conv.pads), conv.groups
        known = source.zero if is_padded else source.constant
        live_DGOI = self.live[conv.layer].reshape(len(known), groups, -1, conv.channels[1])
        constant = ~(live_DGOI & ~known.reshape(len(known), groups, 1, -1)).any(axis=3).reshape(len(known), -1)
        if "ones" in node.tensors and is_padded:
            constant &= ~node.tensors["ones"].any(axis=(2, 3))
        outputs = self._fresh(count)
        for residual in inputs[1:]:
            constant &= residual.constant
            self._tie_pairs(outputs, residual.ids)
        if groups > 1:  # a group stays or goes as a whole
            for group in zip(np.split(source.ids, groups), np.split(outputs, groups), strict=True):
                self._tie(np.concatenate(group).tolist())
        first_inputs, first_outputs = self._first.setdefault(conv.layer, (source.ids, outputs))
        self._tie_pairs(source.ids, first_inputs)  # a layer that runs twice has one set of weights
        self._tie_pairs(outputs, first_outputs)
        values = self._of_constants(node, [np.where(known, source.values, 0.0), *(r.values for r in inputs[1:])])
        return Channels(outputs, constant, values)

    def map(self, node: Node, inputs: Sequence[Channels], count: int) -> Channels:
        """Follow every channel by itself."""
        for other in inputs[1:]:
            self._tie_pairs(inputs[0].ids, other.ids)
        constant = np.logical_and.reduce([source.constant for source in inputs])
        if node.operation.absorbs_zero:
            constant |= np.logical_or.reduce([source.zero for source in inputs])
        if not node.operation.keeps_constants():
            constant &= inputs[0].zero
        return Channels(inputs[0].ids, constant, self._of_constants(node, [source.values for source in inputs]))

    def mix(self, node: Node, inputs: Sequence[Channels], count: int) -> Channels:
        """Hold all channels: each result depends on all of them."""
        for source in inputs:
            self._held |= set(source.ids.tolist())
        result = self._unknown(self._fresh(count))
        self._held |= set(result.ids.tolist())
        return result

    def attend(self, node: Node, inputs: Sequence[Channels], count: int) -> Channels:
        """Let each head stay or go as a whole; means of constant values are these constants."""
        attention = node.operation
        assert isinstance(attention, Attention)
        outputs = self._fresh(count)
        channels = [attention.head_channels(position) for position in range(3)]
        for head, means in enumerate(np.split(outputs, attention.heads)):
            parts = [source.ids[table[head]] for source, table in zip(inputs, channels, strict=True)]
            self._tie(np.concatenate([means, *parts]).tolist())
        constant = inputs[2].constant[:, channels[2].reshape(-1)]
        return Channels(outputs, constant, self._of_constants(node, [source.values for source in inputs]))

    def join(self, node: Node, inputs: Sequence[Channels], count: int) -> Channels:
        """Put channels one after the other."""
        return Channels(
            np.concatenate([source.ids for source in inputs]),
            np.concatenate([source.constant for source in inputs], axis=1),
            np.concatenate([source.values for source in inputs], axis=1),
        )

    def append(self, node: Node, inputs: Sequence[Channels], count: int) -> Channels:
        """Follow channels of zeros after those of the input."""
        zeros = self._unknown(self._fresh(count - len(inputs[0].ids)))
        zeros.constant[:] = True
        return self.join(node, [inputs[0], zeros], count)

    def _of_constants(self, node: Node, inputs: Sequence[Doubles]) -> Doubles:
        """Compute a node on images of one pixel, one per domain: (D, C)."""
        operation = node.operation.on_uniform_images()
        tensors_D = {role: _summed(tensor_D) for role, tensor_D in node.tensors.items()}
        if isinstance(operation, Conv):
            sums_OI = self._network.weights[operation.layer].sum(axis=(2, 3), dtype=np.float64)
            tensors_D["weight"] = (sums_OI * self.live[operation.layer])[..., None, None]
        rows = []
        for domain in range(len(inputs[0])):
            tensors = {role: tensor_D[domain] for role, tensor_D in tensors_D.items()}
            pixels = [values_DC[domain].reshape(1, -1, 1, 1) for values_DC in inputs]
            with np.errstate(all="ignore"):  # results of channels that are not constant are not used
                rows.append(compute(operation, pixels, tensors, (1, 1)).reshape(-1))
        return np.stack(rows).astype(np.float64)

    def read_kernels(self, node: Node, inputs: Sequence[Channels], result: Channels) -> None:
        """Read the inputs of every live kernel whose output is read."""
        conv = node.operation
        assert isinstance(conv, Conv)
        used_DOI = self.live[conv.layer] & result.read[:, :, None]
        self.used[conv.layer] |= used_DOI
        grouped = used_DOI.reshape(len(used_DOI), conv.groups, -1, conv.channels[1])
        inputs[0].read |= grouped.any(axis=2).reshape(len(used_DOI), -1)
        for residual in inputs[1:]:
            residual.read |= result.read

    def read_same(self, node: Node, inputs: Sequence[Channels], result: Channels) -> None:
        """Read the same channels of all inputs, but none that a zero of another input absorbs."""
        absorbed = np.zeros_like(result.read)
        for source in inputs:
            source.read |= result.read & ~absorbed
            if node.operation.absorbs_zero:
                absorbed |= source.zero

    def read_heads(self, node: Node, inputs: Sequence[Channels], result: Channels) -> None:
        """Read the values of what is read, and all queries and keys of heads whose means are not known."""
        attention = node.operation
        assert isinstance(attention, Attention)
        *weighing, values = (attention.head_channels(position) for position in range(3))
        inputs[2].read[:, values.reshape(-1)] |= result.read
        unknown = result.read & ~result.constant
        weighed_DH = unknown.reshape(len(unknown), attention.heads, -1).any(axis=2)
        for source, channels in zip(inputs, weighing, strict=False):
            source.read[:, channels.reshape(-1)] |= np.repeat(weighed_DH, channels.shape[1], axis=1)

    def read_all(self, node: Node, inputs: Sequence[Channels], result: Channels) -> None:
        """Read every channel."""
        for source in inputs:
            source.read[:] = True

    def read_joined(self, node: Node, inputs: Sequence[Channels], result: Channels) -> None:
        """Read what is read of the result, input by input."""
        first = 0
        for source in inputs:
            source.read |= result.read[:, first : first + len(source.ids)]
            first += len(source.ids)


def _live(network: GraphNetwork, layer: str) -> Bools:
    live_DOI: Bools = network.masks[layer] & (network.weights[layer] != 0).any(axis=(2, 3))
    return live_DOI


def _summed(tensor_D: Doubles) -> Doubles:
    """Sum kernels over their pixels; leave numbers per channel as they are."""
    return tensor_D.sum(axis=(-2, -1), keepdims=True) if tensor_D.ndim > 2 else tensor_D


FORWARD: dict[ChannelRule, Callable[[ChannelFlow, Node, Sequence[Channels], int], Channels]] = {
    "channelwise": ChannelFlow.map,
    "mixed": ChannelFlow.mix,
    "convolved": ChannelFlow.convolve,
    "joined": ChannelFlow.join,
    "appended": ChannelFlow.append,
    "attended": ChannelFlow.attend,
    "moved": ChannelFlow.map,
}
BACKWARD: dict[ChannelRule, Callable[[ChannelFlow, Node, Sequence[Channels], Channels], None]] = {
    "channelwise": ChannelFlow.read_same,
    "mixed": ChannelFlow.read_all,
    "convolved": ChannelFlow.read_kernels,
    "joined": ChannelFlow.read_joined,
    "appended": ChannelFlow.read_joined,
    "attended": ChannelFlow.read_heads,
    "moved": ChannelFlow.read_same,
}


@dataclass(frozen=True)
class Units:
    """The units of a graph, numbered in the order of the layers that compute them.

    Args:
        outputs: layer -> the unit of each output channel, (O,).
        inputs: layer -> the unit of each input channel whose kernels can be removed without the rest, (I,).
        sizes: the number of units that each layer computes first; layers without any are left out.
    """

    outputs: Mapping[str, Integers]
    inputs: Mapping[str, Integers]
    sizes: Mapping[str, int]


def find_units(graph: Graph, image_size: int) -> Units:
    """Find the units of a graph; channels of the image, of features, and those that a norm mixes always stay."""
    convs = {operation.layer: operation for operation in graph if isinstance(operation, Conv)}
    weights = {layer: np.ones((*conv.channels, 1, 1), np.float32) for layer, conv in convs.items()}
    masks = {layer: np.ones((1, *conv.channels), np.bool_) for layer, conv in convs.items()}
    features = value_shapes(graph, image_size)[-1][0]
    heads = ((np.ones((1, features), np.float32), np.zeros(1, np.float32)),)
    flow = ChannelFlow(GraphNetwork(tuple(Node(operation) for operation in graph), image_size, weights, masks, heads))
    numbers: dict[int, int] = {}
    outputs: dict[str, Integers] = {}
    sizes: dict[str, int] = {}
    for layer in convs:
        before = len(numbers)
        _, roots = flow.layer_roots(layer)
        rows = [HELD if flow.always_stays(root) else numbers.setdefault(root, len(numbers)) for root in roots]
        outputs[layer] = np.array(rows)
        if len(numbers) > before:
            sizes[layer] = len(numbers) - before
    inputs = {}
    for layer, conv in convs.items():
        roots, _ = flow.layer_roots(layer)
        is_free = conv.groups == 1  # other kernels go with their outputs
        inputs[layer] = np.array([numbers.get(root, HELD) for root in roots] if is_free else [HELD] * conv.channels[1])
    return Units(outputs, inputs, sizes)
