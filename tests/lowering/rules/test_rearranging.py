"""Calls that only move numbers add no operation, unless a layer needs another order."""

from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from prunus.errors import BackboneError
from prunus.lowering.build import build_graph
from tests.lowering.test_build import assert_same
from tests.makers.masked_networks import tiny_net

# a value of 8 channels and 8 x 8 pixels -> features
MOVES: dict[str, tuple[Callable[[Tensor], Tensor], list[str]]] = {
    "there and back": (lambda x: x.permute(0, 2, 3, 1).transpose(1, 3).swapaxes(2, 3).mean((2, 3)), ["mean"]),
    "reshapes": (lambda x: torch.unflatten(x.flatten(2), 2, (8, 8)).reshape(len(x), 8, 64).mean(2), ["mean"]),
    "a part of the channels": (lambda x: x.chunk(2, 1)[1].mean((2, 3)), ["rearrange", "mean"]),
    "one pixel": (lambda x: x[:, :, 3, 5], ["rearrange"]),
    "shuffled": (lambda x: F.pixel_shuffle(x, 2).mean((2, 3)), ["rearrange", "mean"]),
    "rolled": (lambda x: x.roll((1, 2), (2, 3))[:, :, 0, 0], ["rearrange"]),
    "enlarged": (lambda x: F.interpolate(x, scale_factor=2)[:, :, 3:9].mean((2, 3)), ["rearrange", "mean"]),
    "flipped there and back": (lambda x: x.flip(2).mul(2).flip(2).mean((2, 3)), ["mean"]),
    "repeated like another": (lambda x: (x[:, :1].expand_as(x) + x[:, 1:2]).mean((2, 3)), []),
    "split and joined": (lambda x: torch.cat(torch.split(x, [2, 6], 1)[::-1], 1).mean((2, 3)), []),
}


class Moved(nn.Module):
    """A convolution whose result is moved, and then read."""

    def __init__(self, move: Callable[[Tensor], Tensor]) -> None:
        super().__init__()
        self.conv = nn.Conv2d(3, 8, 1)
        self.move = move

    def forward(self, x: Tensor) -> Tensor:
        """Return the features."""
        return self.move(self.conv(x).relu())


@pytest.mark.parametrize("name", MOVES)
def test_moved_numbers_are_those_of_torch(name: str) -> None:
    torch.manual_seed(0)
    move, operations = MOVES[name]
    _, net = tiny_net(Moved(move))
    network = build_graph(net)
    assert_same(net, network)
    after = [operation.op for operation in network.graph if operation.op not in ("conv", "affine")]
    assert not operations or after == operations


class LastAxis(nn.Module):
    """A linear layer on channels in the last axis, as in ConvNeXt."""

    def __init__(self) -> None:
        super().__init__()
        self.conv, self.linear = nn.Conv2d(3, 8, 1), nn.Linear(8, 6)

    def forward(self, x: Tensor) -> Tensor:
        """Return the mean over all pixels."""
        result: Tensor = self.linear(self.conv(x).permute(0, 2, 3, 1)).permute(0, 3, 1, 2).mean((2, 3))
        return result


def test_channels_in_the_last_axis_need_no_move() -> None:
    torch.manual_seed(0)
    _, net = tiny_net(LastAxis())
    network = build_graph(net)
    assert_same(net, network)
    assert [operation.op for operation in network.graph] == ["conv", "conv", "mean"]


def test_pixels_that_are_mixed_with_negative_weights_are_refused() -> None:
    _, net = tiny_net(Moved(lambda x: F.interpolate(x, scale_factor=2, mode="bicubic").mean((2, 3))))
    with pytest.raises(BackboneError, match="interpolate"):
        build_graph(net)
