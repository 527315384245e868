"""Switches of whole channels: one for all kernels that compute or read a channel, wherever they are.

Without them a network has smaller matrices, which makes it faster in any engine. In a transformer these are the neurons
of MLPs (a row of the first layer, a column of the second) and the heads of attention (rows of the queries, keys and
values, columns of the projection).

Legend: O = output channels, I = input channels of one group, D = domains, K = kernels, M = switches of a domain.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

import torch
from torch import Tensor
from typing_extensions import override

from prunus.masks.layout import ConvShape, SwitchLayout


@dataclass(frozen=True)
class ChannelLayout(SwitchLayout):
    """All layers of a network, and the switch of each of their channels; -1 for channels that always stay.

    Args:
        outputs: convolution -> the switch of each output channel, (O,).
        inputs: convolution -> the switch of each input channel, (I,).
        counts: the number of switches by the layer that computes their channels first.
    """

    outputs: Mapping[str, Tensor] = field(default_factory=dict)
    inputs: Mapping[str, Tensor] = field(default_factory=dict)
    counts: tuple[int, ...] = ()

    @property
    @override
    def sizes(self) -> list[int]:
        return list(self.counts)

    @override
    def views(self, row_M: Tensor) -> dict[str, Tensor]:
        """View a flat row as the kernels in use: those of an output and an input that are both on."""
        row = _with_stay(row_M)
        return {
            conv.name: (row[..., self.outputs[conv.name], None] * row[..., None, self.inputs[conv.name]])[
                ..., None, None
            ]
            for conv in self.convs
        }

    @override
    def factors(self, row_M: Tensor) -> dict[str, Tensor]:
        """Multiply only the kernels that read a channel: nothing else does, and the channel itself stays known.

        So a switch that is off has a gradient that says what its channel would do.
        """
        row = _with_stay(row_M)
        switched = {name: switch_I for name, switch_I in self.inputs.items() if bool((switch_I >= 0).any())}
        return {name: row[..., None, switch_I, None, None] for name, switch_I in switched.items()}

    @override
    def gather(self, gradient_DK: Tensor) -> Tensor:
        pieces = torch.split(gradient_DK, [conv.num_kernels for conv in self.convs], dim=1)
        by_kernel = {
            conv.name: piece.reshape(-1, conv.out_channels, conv.in_channels)
            for conv, piece in zip(self.convs, pieces, strict=True)
        }
        ones = {name: torch.ones_like(kernels_DOI[0]) for name, kernels_DOI in by_kernel.items()}
        return self.totals(by_kernel) / self.totals(ones).sqrt()

    @override
    def totals(self, kernels: Mapping[str, Tensor]) -> Tensor:
        """Sum numbers by kernel over all kernels that compute or read each channel."""
        first = next(iter(kernels.values()))
        row = first.new_zeros(*first.shape[:-2], sum(self.counts) + 1)
        for conv in self.convs:
            numbers_OI = kernels[conv.name]
            for switches, sums in ((self.outputs, numbers_OI.sum(-1)), (self.inputs, numbers_OI.sum(-2))):
                index = switches[conv.name].to(row.device) % row.shape[-1]
                row.index_add_(-1, index, sums.to(row.dtype))
        return row[..., :-1]

    @override
    def shape(self, conv: ConvShape) -> tuple[int, int, int, int]:
        return conv.out_channels, conv.in_channels, 1, 1


def _with_stay(row_M: Tensor) -> Tensor:
    """Append what the channels that always stay are multiplied by; their switch, -1, is the last."""
    return torch.cat([row_M, row_M.new_ones(*row_M.shape[:-1], 1)], -1)
