"""Windows of attention are found with their sides, their distances, their shift and their bias."""

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from prunus.graph.operations import Attention
from prunus.lowering.build import build_graph
from tests.lowering.test_build import assert_same
from tests.makers.masked_networks import tiny_net


class Windowed(nn.Module):
    """Attention in windows, with a bias by head, and another for pixels that a roll brought together."""

    def __init__(self, shift: int, every: bool, fused: bool) -> None:
        super().__init__()
        self.conv = nn.Conv2d(3, 8, 1)
        self.qkv = nn.Linear(8, 24)
        self.bias = nn.Parameter(torch.randn(1, 2, 4, 4))
        self.shift, self.every, self.fused = shift, every, fused

    def forward(self, x: Tensor) -> Tensor:
        """Return the mean over all pixels."""
        x = torch.roll(self.conv(x).permute(0, 2, 3, 1), (-self.shift, -self.shift), (1, 2))
        images, half = len(x), x.shape[1] // 2
        order = (0, 2, 4, 1, 3, 5) if self.every else (0, 1, 3, 2, 4, 5)
        sizes = (images, 2, half, 2, half, 8) if self.every else (images, half, 2, half, 2, 8)
        windows = x.reshape(sizes).permute(order).reshape(-1, 4, 8)
        q, k, v = self.qkv(windows).reshape(len(windows), 4, 3, 2, 4).permute(2, 0, 3, 1, 4)
        apart = torch.zeros(half * half, 4, 4)
        if self.shift:
            wrapped = torch.zeros(2 * half)
            wrapped[2 * half - self.shift :] = 1
            areas = (2 * wrapped[:, None] + wrapped).reshape(half, 2, half, 2).permute(0, 2, 1, 3).reshape(-1, 4)
            apart = torch.where(areas[:, :, None] != areas[:, None, :], -100.0, 0.0)
        apart = apart.to(self.bias.dtype)
        if self.fused:
            bias = self.bias + apart[:, None].repeat(images, 1, 1, 1)
            means = F.scaled_dot_product_attention(q, k, v, attn_mask=bias)
        else:  # as Swin does it: a bias by head, then one by window in another shape
            scores = q @ k.transpose(-2, -1) * 0.5 + self.bias
            scores = scores.view(images, half * half, 2, 4, 4) + apart[None, :, None]
            means = scores.view(-1, 2, 4, 4).softmax(-1) @ v
        return means.transpose(1, 2).reshape(images, -1, 8).mean(1)


@pytest.mark.parametrize("fused", [True, False])
@pytest.mark.parametrize(("shift", "every"), [(0, False), (1, False), (0, True)])
def test_windows_are_found_with_their_bias(shift: int, every: bool, fused: bool) -> None:
    torch.manual_seed(0)
    _, net = tiny_net(Windowed(shift, every, fused))
    network = build_graph(net)
    (found,) = (operation for operation in network.graph if isinstance(operation, Attention))
    assert found.window == (2, 2)
    assert found.every == ((4, 4) if every else (1, 1))
    assert found.shift == (shift, shift)
    assert found.apart == pytest.approx(-100.0 if shift else 0.0)
    assert_same(net, network)


class Partitioned(nn.Module):
    """Attention in windows of any sides, or in grids of pixels that far apart, with one head or several."""

    def __init__(self, window: tuple[int, int], grid: bool, heads: int) -> None:
        super().__init__()
        self.conv, self.qkv = nn.Conv2d(3, 8, 1), nn.Linear(8, 24)
        self.window, self.grid, self.heads = window, grid, heads

    def forward(self, x: Tensor) -> Tensor:
        """Return the mean over all pixels of their squares, which tells them apart."""
        x = self.conv(x).permute(0, 2, 3, 1)
        (height, width), (_, rows, columns, _) = self.window, x.shape
        counts = (rows // height, columns // width)
        sizes = (height, counts[0], width, counts[1]) if self.grid else (counts[0], height, counts[1], width)
        order = (0, 2, 4, 1, 3, 5) if self.grid else (0, 1, 3, 2, 4, 5)
        windows = x.reshape(-1, *sizes, 8).permute(order).reshape(-1, height * width, 8)
        q, k, v = torch.unflatten(self.qkv(windows), 2, (3, self.heads, -1)).permute(2, 0, 3, 1, 4)
        means = F.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(2)
        return (means * means).reshape(-1, rows * columns, 8).mean(1)


@pytest.mark.parametrize("heads", [1, 2, 8])
@pytest.mark.parametrize("grid", [False, True])
@pytest.mark.parametrize("window", [(1, 1), (1, 4), (4, 1), (2, 2), (2, 4), (4, 2), (8, 1), (1, 8), (4, 8), (8, 8)])
def test_windows_of_any_sides_are_those_of_torch(window: tuple[int, int], grid: bool, heads: int) -> None:
    torch.manual_seed(0)
    _, net = tiny_net(Partitioned(window, grid, heads))
    network = build_graph(net)
    assert [operation.op for operation in network.graph].count("attention") == 1
    assert_same(net, network)
