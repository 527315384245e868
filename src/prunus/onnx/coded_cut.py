"""Remove the channels of an 8-bit network that a domain does not need; its answers stay the same.

What a constant channel holds is what its code stands for. A constant stays where it cannot be folded into integers:
before padding, which ends it at the border of the image, and where a float becomes a code.

Legend: D = domains, C = channels.
"""

from collections.abc import Collection, Mapping, Sequence

import numpy as np
from typing_extensions import override

from prunus.arrays import Bools, Doubles
from prunus.bundle.eight_bits.rules import LARGEST_CODE
from prunus.graph.channels import ChannelFlow, Channels
from prunus.graph.network import GraphNetwork, Node
from prunus.graph.operations import Conv
from prunus.integers.coding import Codings


class CodedFlow(ChannelFlow):
    """What is known about every channel of every value of an 8-bit network."""

    def __init__(self, network: GraphNetwork, integers: Collection[int], codings: Mapping[int, Codings]) -> None:
        self._integers = integers
        self._codings = codings
        super().__init__(network)

    @override
    def _of_constants(self, node: Node, inputs: Sequence[Doubles]) -> Doubles:
        number = len(self.values) - 1  # the value that is being added is that of this operation
        if number not in self._integers:
            return super()._of_constants(node, inputs)
        sources = zip(node.operation.inputs, inputs, strict=True)
        return self._coded(number + 1, super()._of_constants(node, [self._coded(*source) for source in sources]))

    @override
    def _find_kept(self) -> set[int]:
        for number in self._integers:
            operation = self._network.nodes[number].operation
            for position, value in enumerate(operation.inputs):
                is_padded = position == 0 and isinstance(operation, Conv) and any(operation.pads)
                if is_padded or value - 1 not in self._integers:
                    self._held |= set(self.values[value].ids[_read_constants(self.values[value])].tolist())
        return super()._find_kept()

    def _coded(self, value: int, numbers_DC: Doubles) -> Doubles:
        """Return what the nearest codes stand for."""
        scales_D, zeros_D = (row[:, None] for row in self._codings[value].doubles())
        codes_DC = np.rint(np.clip(numbers_DC / scales_D + zeros_D, 0, LARGEST_CODE))
        return np.asarray(scales_D * (codes_DC - zeros_D), np.float64)


def _read_constants(channels: Channels) -> Bools:
    """Return the channels that are read and constant, but not zero, in some domain: (C,)."""
    constant: Bools = np.logical_or.reduce(channels.read & channels.constant & ~channels.zero)
    return constant
