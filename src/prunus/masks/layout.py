"""Where each convolution's switches lie in one flat row.

Legend: O = output channels, I = input channels of one group, M = all switches of a domain.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from prunus.errors import BackboneError

UNSUPPORTED = (nn.Conv3d, nn.ConvTranspose1d, nn.ConvTranspose2d, nn.ConvTranspose3d)
UNSUPPORTED_NAMES = frozenset({"CondConv2d"})  # timm's: its weights depend on the image
PLAIN_CONVOLUTIONS = frozenset({"Conv2d", "Conv2dSame", "Conv2dSameExport"})


@dataclass(frozen=True)
class ConvShape:
    """The switches of one convolution: one per (output channel, input channel of its group)."""

    name: str
    out_channels: int
    in_channels: int
    kernel: tuple[int, int]

    @property
    def num_kernels(self) -> int:
        """Count the 2-D kernels, which is to say the switches."""
        return self.out_channels * self.in_channels

    @property
    def kernel_area(self) -> int:
        """Count the weights of one kernel."""
        return self.kernel[0] * self.kernel[1]


@dataclass(frozen=True)
class SwitchLayout:
    """All convolutions of a network in order, and their places in the flat row."""

    convs: tuple[ConvShape, ...]

    @property
    def num_switches(self) -> int:
        """Count all switches of one domain: M."""
        return sum(conv.num_kernels for conv in self.convs)

    def views(self, row_M: Tensor) -> dict[str, Tensor]:
        """View a flat row as one (O, I) tensor per convolution."""
        pieces = torch.split(row_M, [conv.num_kernels for conv in self.convs], dim=-1)
        return {
            conv.name: piece.reshape(*piece.shape[:-1], conv.out_channels, conv.in_channels)
            for conv, piece in zip(self.convs, pieces, strict=True)
        }


def switch_layout(network: nn.Module) -> SwitchLayout:
    """Find every convolution of a network, the stem and 1x1 ones too."""
    convs = []
    for name, module in network.named_modules():
        kind = type(module).__name__
        if isinstance(module, UNSUPPORTED) or kind in UNSUPPORTED_NAMES:
            raise BackboneError(f"layer {name!r} is a {kind}, which cannot be switched; choose a network without it")
        if not isinstance(module, nn.Conv2d):
            continue
        if kind not in PLAIN_CONVOLUTIONS:
            raise BackboneError(
                f"layer {name!r} is a {kind}, which changes its weights before use, so that a kernel switched off "
                f"could come back; choose a network with plain convolutions"
            )
        out_channels, in_channels, height, width = module.weight.shape
        convs.append(ConvShape(name, out_channels, in_channels, (height, width)))
    if not convs:
        raise BackboneError("the network has no 2-D convolution, so nothing to switch; choose another")
    return SwitchLayout(tuple(convs))
