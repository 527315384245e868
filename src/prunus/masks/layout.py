"""The position of each layer's switches in one flat row.

A linear layer is laid out as a convolution of 1x1 kernels: one kernel per weight.

Legend: O = output channels, I = input channels of one group, M = all switches of a domain.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from math import prod, sqrt

import torch
from torch import Tensor, nn
from torch.nn.functional import pad

from prunus.backbone.held import PLAIN_LINEARS
from prunus.errors import BackboneError
from prunus.granularity import BLOCKS, WeightShape, block_grid, choose_granularity

UNSUPPORTED = (nn.Conv3d, nn.ConvTranspose1d, nn.ConvTranspose2d, nn.ConvTranspose3d)
UNSUPPORTED_NAMES = frozenset({"CondConv2d"})  # timm's: its weights depend on the image
PLAIN_CONVOLUTIONS = frozenset({"Conv2d", "Conv2dSame", "Conv2dSameExport"})


@dataclass(frozen=True)
class ConvShape:
    """The name of a convolution or linear layer, and the shape of its weights."""

    name: str
    out_channels: int
    in_channels: int
    kernel: tuple[int, int]

    @property
    def weight_shape(self) -> WeightShape:
        """Return the shape of the weights."""
        return self.out_channels, self.in_channels, *self.kernel

    @property
    def num_kernels(self) -> int:
        """Count the 2-D kernels."""
        return self.out_channels * self.in_channels

    @property
    def kernel_area(self) -> int:
        """Count the weights of one kernel."""
        return self.kernel[0] * self.kernel[1]

    @property
    def num_weights(self) -> int:
        """Count all weights."""
        return self.num_kernels * self.kernel_area


FINE = ("kernel", "weight")  # one switch for one kernel, or for less


@dataclass(frozen=True)
class SwitchLayout:
    """All switched layers of a network in order, and the positions of their switches in the flat row.

    Args:
        norms: convolution -> the norm that carries its switches during training (`masks/gated_norms.py`).
        positions: convolution -> output pixels of one image, where they are known.
    """

    convs: tuple[ConvShape, ...]
    granularity: str = "kernel"
    norms: Mapping[str, str] = field(default_factory=dict)
    positions: Mapping[str, int] = field(default_factory=dict)

    @property
    def sizes(self) -> list[int]:
        """Count the switches of every layer, in their order."""
        return [prod(self.shape(conv)) for conv in self.convs]

    @property
    def num_switches(self) -> int:
        """Count all switches of one domain: M."""
        return sum(self.sizes)

    def shape(self, conv: ConvShape) -> tuple[int, int, int, int]:
        """Return the shape of a convolution's switches."""
        height, width = conv.kernel if self.granularity == "weight" else (1, 1)
        return *block_grid(self.granularity, conv.weight_shape), height, width

    def views(self, row_M: Tensor) -> dict[str, Tensor]:
        """View a flat row as one tensor per convolution that broadcasts to its weights; blocks of inputs are copied."""
        shapes = [self.shape(conv) for conv in self.convs]
        pieces = torch.split(row_M, [prod(shape) for shape in shapes], dim=-1)
        return {
            conv.name: self._widened(conv, piece.reshape(*piece.shape[:-1], *shape))
            for conv, piece, shape in zip(self.convs, pieces, shapes, strict=True)
        }

    def factors(self, row_M: Tensor) -> dict[str, Tensor]:
        """View a flat row as what the weights of each convolution are multiplied by; all others stay as they are."""
        return self.views(row_M)

    def _widened(self, conv: ConvShape, view: Tensor) -> Tensor:
        """Repeat switches for each of their inputs, unless they broadcast to all inputs by themselves."""
        if view.shape[-3] in (1, conv.in_channels):
            return view
        _, inputs = BLOCKS[self.granularity](conv.weight_shape)
        return view.repeat_interleave(inputs, dim=-3).narrow(-3, 0, conv.in_channels)

    def spread(self, rows_DM: Tensor) -> Tensor:
        """Repeat coarse switches for each of their kernels; return finer switches unchanged.

        Budgets and sharing losses count kernels and therefore mean the same at every granularity.
        """
        if self.granularity in FINE:
            return rows_DM
        views = self.views(rows_DM)
        kernels = [
            views[c.name].expand(-1, c.out_channels, c.in_channels, 1, 1).reshape(len(rows_DM), -1) for c in self.convs
        ]
        return torch.cat(kernels, 1)

    def gather(self, gradient_DK: Tensor) -> Tensor:
        """Turn the gradients of penalties by kernel into gradients by switch: their sum, over the root of their number.

        The cross-entropy's gradient by a switch of n kernels is a sum of n numbers of either sign, about sqrt(n) times
        as large as that of one kernel. Penalties by kernel all have the same sign: their plain sum, n times as large,
        would hide the cross-entropy and turn everything off; their mean would be hidden by it.
        """
        if self.granularity in FINE:
            return gradient_DK
        pieces = torch.split(gradient_DK, [conv.num_kernels for conv in self.convs], dim=1)
        kernels = [
            self._over_root(conv, self.sums(conv, piece.reshape(-1, conv.out_channels, conv.in_channels)))
            for conv, piece in zip(self.convs, pieces, strict=True)
        ]
        return torch.cat([piece.flatten(1) for piece in kernels], 1)

    def sums(self, conv: ConvShape, kernels_OI: Tensor) -> Tensor:
        """Sum numbers by kernel over the kernels of each switch: (..., O, I) -> (..., blocks of outputs, of inputs)."""
        outputs, inputs = BLOCKS[self.granularity](conv.weight_shape)
        if outputs > 1:
            kernels_OI = kernels_OI.sum(-2, keepdim=True)  # blocks of several outputs have all
        if inputs == 1:
            return kernels_OI
        whole_OI = pad(kernels_OI, (0, -conv.in_channels % inputs))  # the last block may be shorter
        return whole_OI.reshape(*whole_OI.shape[:-1], -1, inputs).sum(-1)

    def touching(self, kernels: Mapping[str, Tensor]) -> Tensor:
        """Return the switches that control any of some kernels: convolution -> (O, I) booleans becomes a flat row."""
        return self.totals({name: kernels_OI.long() for name, kernels_OI in kernels.items()}) > 0

    def totals(self, kernels: Mapping[str, Tensor]) -> Tensor:
        """Sum numbers by kernel over the kernels of each switch: convolution -> (..., O, I) becomes a flat row."""
        return torch.cat([self.sums(conv, kernels[conv.name]).flatten(-2) for conv in self.convs], -1)

    def _over_root(self, conv: ConvShape, sums: Tensor) -> Tensor:
        outputs, inputs = BLOCKS[self.granularity](conv.weight_shape)
        last = conv.in_channels % inputs
        if last == 0:
            return sums / sqrt(outputs * inputs)
        return torch.cat([sums[..., :-1] / sqrt(outputs * inputs), sums[..., -1:] / sqrt(outputs * last)], -1)


def convolutions(network: nn.Module) -> tuple[ConvShape, ...]:
    """Return every layer of a network that can be switched: its convolutions, and its linear layers as 1x1 ones."""
    convs = []
    for name, module in network.named_modules():
        kind = type(module).__name__
        if isinstance(module, UNSUPPORTED) or kind in UNSUPPORTED_NAMES:
            raise BackboneError(f"layer {name!r} is a {kind}, which is unsupported; choose a network without it")
        if not is_switched(module):
            continue
        if isinstance(module, nn.Linear):
            convs.append(ConvShape(name, module.out_features, module.in_features, (1, 1)))
            continue
        assert isinstance(module, nn.Conv2d)
        if kind not in PLAIN_CONVOLUTIONS:
            raise BackboneError(
                f"layer {name!r} is a {kind}, which changes its weights before use and could undo a switch; "
                "choose a network with plain convolutions"
            )
        out_channels, in_channels, height, width = module.weight.shape
        convs.append(ConvShape(name, out_channels, in_channels, (height, width)))
    if not convs:
        raise BackboneError("the network has no 2-D convolution or linear layer to switch; choose another network")
    return tuple(convs)


def is_switched(module: nn.Module) -> bool:
    """Return whether the weights of a layer get switches; linear layers that are not simply called get none."""
    return isinstance(module, nn.Conv2d) or (isinstance(module, nn.Linear) and type(module).__name__ in PLAIN_LINEARS)


def like_weight(values: Tensor, weight: Tensor) -> Tensor:
    """Take the two last axes, of length 1, off values of a linear layer's kernels, whose weights have none."""
    return values if weight.ndim == 4 else values[..., 0, 0]


def resolved(granularity: str, network: nn.Module) -> str:
    """Return a granularity itself; for "auto", the one for this network."""
    convs = convolutions(network)
    linear = sum(c.num_weights for c in convs if isinstance(network.get_submodule(c.name), nn.Linear))
    return choose_granularity(granularity, linear, sum(conv.num_weights for conv in convs))


def switch_layout(network: nn.Module, granularity: str = "kernel") -> SwitchLayout:
    """Lay out the switches of all layers of a network."""
    return SwitchLayout(convolutions(network), resolved(granularity, network))
