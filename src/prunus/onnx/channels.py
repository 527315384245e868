"""Follow every channel through one domain's graph: what is constant, what is wanted, what stands or falls together.

Forward, a channel is constant where no kernel that is not all zeros feeds it; its value then comes from biases alone.
Backward, a channel is read where something that is wanted depends on it, and wanted where it is read and not constant.
Values that are added or multiplied share their channels: one goes only where all go.

Legend: C = channels of a value, O = output channels, I = input channels of one group, G = groups.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from prunus.arrays import Bools, Doubles
from prunus.graph.operations import AppendZeros, Cat, Conv, LayerNorm, Mul, Operation, Pool
from prunus.onnx.network import DomainNetwork
from prunus.runtime.numpy_operations import Tensors, compute


@dataclass
class Channels:
    """The channels of one value: `ids` say which are the same, `values` are 0 where a channel is not constant."""

    ids: list[int]
    constant: Bools
    values: Doubles
    read: Bools = field(init=False)

    def __post_init__(self) -> None:
        self.read = np.zeros_like(self.constant)
        self.values = np.where(self.constant, self.values, 0.0)

    @property
    def wanted(self) -> Bools:
        """Tell which channels something needs and cannot know beforehand."""
        return self.read & ~self.constant


class ChannelFlow:
    """What is known about every channel of every value."""

    def __init__(self, network: DomainNetwork) -> None:
        self._parents: list[int] = []
        self._held: set[int] = set()
        image = self._fresh(3)
        self._held |= set(image)  # a model takes images of three channels, whatever it does with them
        self.values = [Channels(image, np.zeros(3, np.bool_), np.zeros(3))]
        for operation, tensors in zip(network.graph, network.tensors, strict=True):
            inputs = [self.values[value] for value in operation.inputs]
            self.values.append(FORWARD.get(operation.op, _map)(self, operation, inputs, tensors))
        self.values[-1].read[:] = True
        for number in reversed(range(len(network.graph))):
            operation, wanted = network.graph[number], self.values[number + 1].wanted
            inputs = [self.values[value] for value in operation.inputs]
            BACKWARD.get(operation.op, _read_all_inputs)(operation, inputs, network.tensors[number], wanted)
        self._kept = self._keep()

    def kept(self, value: int) -> list[int]:
        """List the channels of a value that stay."""
        return [place for place, each in enumerate(self.values[value].ids) if self._find(each) in self._kept]

    def _fresh(self, count: int) -> list[int]:
        first = len(self._parents)
        self._parents += range(first, first + count)
        return list(range(first, first + count))

    def _find(self, each: int) -> int:
        while self._parents[each] != each:
            self._parents[each] = each = self._parents[self._parents[each]]
        return each

    def _tie(self, ids: Sequence[int]) -> None:
        roots = {self._find(each) for each in ids}
        for root in roots:
            self._parents[root] = min(roots)

    def _keep(self) -> set[int]:
        """Keep what is wanted or held, and of every value at least one channel."""
        kept = {self._find(each) for each in self._held}
        for value in self.values:
            kept |= {self._find(each) for each, wanted in zip(value.ids, value.wanted, strict=True) if wanted}
        for value in self.values:
            if not any(self._find(each) in kept for each in value.ids):
                kept.add(self._find(value.ids[0]))
        return kept

    def convolve(self, conv: Conv, inputs: Sequence[Channels], tensors: Tensors) -> Channels:
        """Find outputs that only constants feed; zeros in the padding make all but zeros vary at the border."""
        source, padded, groups = inputs[0], any(conv.pads), conv.groups
        harmless = source.constant & ((source.values == 0) | (not padded))
        varies_OI = _live(tensors).reshape(groups, -1, conv.channels[1]) & ~harmless.reshape(groups, 1, -1)
        constant = ~varies_OI.any(axis=2).reshape(-1)
        if "ones" in tensors and padded:
            constant &= ~tensors["ones"].any(axis=(1, 2))
        known = [np.where(harmless, source.values, 0.0), *(each.values for each in inputs[1:])]
        ids = self._fresh(conv.channels[0])
        for residual in inputs[1:]:
            constant = constant & residual.constant
            for one, other in zip(ids, residual.ids, strict=True):
                self._tie([one, other])
        if groups > 1:  # a group goes as a whole or not at all
            for group in zip(np.split(np.array(source.ids), groups), np.split(np.array(ids), groups), strict=True):
                self._tie(np.concatenate(group).tolist())
        return Channels(ids, constant, _of_constants(_pointwise(conv), known, _summed(tensors)))

    def normalize(self, norm: LayerNorm, inputs: Sequence[Channels], tensors: Tensors) -> Channels:
        """Hold all channels: each depends on all."""
        self._held |= set(inputs[0].ids)
        count = len(inputs[0].ids)
        return Channels(inputs[0].ids, np.zeros(count, np.bool_), np.zeros(count))

    def combine(self, operation: Operation, inputs: Sequence[Channels], tensors: Tensors) -> Channels:
        """Add or multiply; nothing times anything is nothing."""
        first, second = inputs
        for one, other in zip(first.ids, second.ids, strict=True):
            self._tie([one, other])
        constant = first.constant & second.constant
        if isinstance(operation, Mul):
            constant |= (first.constant & (first.values == 0)) | (second.constant & (second.values == 0))
        return Channels(first.ids, constant, _of_constants(operation, [first.values, second.values], tensors))

    def append(self, operation: AppendZeros, inputs: Sequence[Channels], tensors: Tensors) -> Channels:
        """Know that what is appended is zero."""
        source, zeros = inputs[0], np.zeros(operation.count)
        ids = [*source.ids, *self._fresh(operation.count)]
        return Channels(ids, np.append(source.constant, zeros == 0), np.append(source.values, zeros))


def _map(_flow: ChannelFlow, operation: Operation, inputs: Sequence[Channels], tensors: Tensors) -> Channels:
    """Send every channel through by itself."""
    return Channels(inputs[0].ids, inputs[0].constant, _of_constants(operation, [inputs[0].values], tensors))


def _pool(_flow: ChannelFlow, pool: Pool, inputs: Sequence[Channels], tensors: Tensors) -> Channels:
    """Pass constants on, but for means over zeros in the padding and windows that see nothing else."""
    source, blurs = inputs[0], pool.kind == "mean" and pool.count_pads and any(pool.pads)
    blurs = blurs or any(pad >= pool.kernel[side % 2] for side, pad in enumerate(pool.pads))
    constant = source.constant & ((source.values == 0) & (pool.kind == "mean")) if blurs else source.constant
    return Channels(source.ids, constant, source.values)


def _cat(_flow: ChannelFlow, _cat: Cat, inputs: Sequence[Channels], tensors: Tensors) -> Channels:
    ids = [each for source in inputs for each in source.ids]
    constant, values = (np.concatenate([getattr(each, key) for each in inputs]) for key in ("constant", "values"))
    return Channels(ids, constant, values)


def _live(tensors: Tensors) -> Bools:
    """Tell which kernels are not all zeros: (O, I)."""
    live_OI: Bools = (tensors["weight"] != 0).any(axis=(2, 3))
    return live_OI


def _pointwise(conv: Conv) -> Conv:
    """Give what a convolution is to images that are the same everywhere."""
    update = {"kernel": (1, 1), "stride": (1, 1), "pads": (0, 0, 0, 0), "dilation": (1, 1)}
    return conv.model_copy(update=update)


def _summed(tensors: Tensors) -> Tensors:
    return {
        role: tensor.astype(np.float64).sum(axis=(-2, -1), keepdims=True) if tensor.ndim > 1 else tensor
        for role, tensor in tensors.items()
    }


def _of_constants(operation: Operation, values: Sequence[Doubles], tensors: Tensors) -> Doubles:
    pixels = [each.reshape(1, -1, 1, 1) for each in values]
    with np.errstate(all="ignore"):  # what is not constant is not used
        return compute(operation, pixels, tensors, (1, 1)).astype(np.float64).reshape(-1)


def _read_all_inputs(operation: Operation, inputs: Sequence[Channels], tensors: Tensors, wanted: Bools) -> None:
    for source in inputs:
        source.read |= wanted[: len(source.ids)]


def _read_convolved(conv: Conv, inputs: Sequence[Channels], tensors: Tensors, wanted: Bools) -> None:
    used_OI = _live(tensors) & wanted[:, None]
    inputs[0].read |= used_OI.reshape(conv.groups, -1, conv.channels[1]).any(axis=1).reshape(-1)
    _read_all_inputs(conv, inputs[1:], tensors, wanted)


def _read_joined(cat: Cat, inputs: Sequence[Channels], tensors: Tensors, wanted: Bools) -> None:
    ends = np.cumsum([len(source.ids) for source in inputs])
    for source, piece in zip(inputs, np.split(wanted, ends[:-1]), strict=True):
        source.read |= piece


def _read_normalized(norm: LayerNorm, inputs: Sequence[Channels], tensors: Tensors, wanted: Bools) -> None:
    inputs[0].read[:] = True


FORWARD: dict[str, Callable[[ChannelFlow, Any, Sequence[Channels], Tensors], Channels]] = {
    "conv": ChannelFlow.convolve,
    "layer_norm": ChannelFlow.normalize,
    "add": ChannelFlow.combine,
    "mul": ChannelFlow.combine,
    "append_zeros": ChannelFlow.append,
    "cat": _cat,
    "pool": _pool,
}
BACKWARD: dict[str, Callable[[Any, Sequence[Channels], Tensors, Bools], None]] = {
    "conv": _read_convolved,
    "layer_norm": _read_normalized,
    "cat": _read_joined,
}
