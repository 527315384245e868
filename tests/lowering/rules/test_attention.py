"""Attention becomes one operation, whether torch's function or products and a softmax compute it."""

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from prunus.errors import BackboneError
from prunus.graph.cut import cut
from prunus.graph.operations import Attention
from prunus.lowering.build import build_graph
from tests.lowering.test_build import assert_same
from tests.makers.masked_networks import tiny_net
from tests.makers.token_networks import TinyTransformer


@pytest.mark.parametrize("fused", [True, False])
@pytest.mark.parametrize("pooled", [True, False])
def test_a_transformer_becomes_a_graph_with_the_same_logits(fused: bool, pooled: bool) -> None:
    torch.manual_seed(0)
    _, net = tiny_net(TinyTransformer(fused, pooled))
    network = build_graph(net)
    assert [operation.op for operation in network.graph].count("attention") == 2
    assert_same(net, network, cut(network))


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


def test_a_softmax_of_something_else_is_refused() -> None:
    class Own(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.conv = nn.Conv2d(3, 4, 1)

        def forward(self, x: Tensor) -> Tensor:
            scores: Tensor = self.conv(x)
            return scores.flatten(2).softmax(-1).mean(2)

    with pytest.raises(BackboneError, match="the operation 'softmax'"):
        build_graph(tiny_net(Own())[1])
