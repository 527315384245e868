"""Whatever a network computes, its graph has the same logits, or it is refused as a network that no file can hold."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F
from hypothesis import example, given
from hypothesis import strategies as st
from torch import Tensor, nn

from prunus.errors import NoFileError
from prunus.graph.cut import cut
from prunus.lowering.build import build_graph
from tests.lowering.test_build import assert_same
from tests.makers.masked_networks import MODES, draw_tiny, tiny_net

CHANNELS, SIDE = 8, 8


class Drawn(nn.Module):
    """A network of some steps, one after the other; each takes and returns an image of 8 channels, of any sides."""

    def __init__(self, steps: list[str], end: str) -> None:
        super().__init__()
        self.stem = nn.Conv2d(3, CHANNELS, 3, padding=1)
        self.one, self.window = nn.Conv2d(CHANNELS, CHANNELS, 1), nn.Conv2d(CHANNELS, CHANNELS, 3, padding=1)
        self.depthwise = nn.Conv2d(CHANNELS, CHANNELS, 3, padding=1, groups=CHANNELS)
        self.linear, self.qkv = nn.Linear(CHANNELS, CHANNELS), nn.Linear(CHANNELS, 3 * CHANNELS)
        self.batch_norm, self.layer_norm = nn.BatchNorm2d(CHANNELS), nn.LayerNorm(CHANNELS)
        self.head_norm = nn.LayerNorm(CHANNELS // 2)
        self.token = nn.Parameter(torch.randn(1, 1, CHANNELS))
        self.numbers = nn.Parameter(torch.randn(CHANNELS, SIDE, SIDE))
        self.steps, self.end = steps, end

    def forward(self, x: Tensor) -> Tensor:
        """Return the features."""
        x = self.stem(x)
        for step in self.steps:
            x = STEPS[step](self, x)
        return ENDS[self.end](x)


Step = Callable[[Drawn, Tensor], Tensor]


def _tokens(x: Tensor) -> Tensor:
    return x.flatten(2).transpose(1, 2)


def _image(tokens: Tensor, like: Tensor) -> Tensor:
    """Return tokens as an image with the sides of another, or as a row."""
    sides = like.shape[2:] if tokens.shape[1] == like.shape[2] * like.shape[3] else (1, tokens.shape[1])
    return tokens.transpose(1, 2).reshape(-1, CHANNELS, *sides)


def _split(m: Drawn, x: Tensor, heads: int) -> tuple[Tensor, Tensor, Tensor]:
    q, k, v = torch.unflatten(m.qkv(_tokens(x)), 2, (3, heads, -1)).permute(2, 0, 3, 1, 4).unbind(0)
    return q, k, v


def _joined(means: Tensor, like: Tensor) -> Tensor:
    return _image(means.transpose(1, 2).flatten(2), like)


def _many_queries(m: Drawn, x: Tensor) -> Tensor:
    q, k, v = _split(m, x, 4)
    return _joined(F.scaled_dot_product_attention(q, k[:, :1].expand_as(k), v[:, :1].expand_as(v)), x)


def _products(m: Drawn, x: Tensor) -> Tensor:
    q, k, v = _split(m, x, 1)
    return _joined((q @ k.mT * 0.4).softmax(-1) @ (v * 2), x)


def _normed(m: Drawn, x: Tensor) -> Tensor:
    q, k, v = _split(m, x, 2)
    return _joined(F.scaled_dot_product_attention(m.head_norm(q), m.head_norm(k), v), x)


def _half_of_the_queries(m: Drawn, x: Tensor) -> Tensor:
    q, k, v = _split(m, x, 2)
    return _joined(F.scaled_dot_product_attention(q[:, :, ::2], k, v), x)


def _windows(m: Drawn, x: Tensor) -> Tensor:
    """Attend within rows, if there are several."""
    q, k, v = (
        torch.unflatten(m.qkv(x.permute(0, 2, 3, 1).flatten(0, 1)), 2, (3, 2, -1)).permute(2, 0, 3, 1, 4).unbind(0)
    )
    means = F.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(2)
    return means.reshape(-1, x.shape[2], x.shape[3], CHANNELS).permute(0, 3, 1, 2)


def _with_token(m: Drawn, x: Tensor) -> Tensor:
    tokens = torch.cat([m.token.expand(len(x), -1, -1), _tokens(x)], 1)
    return _image(m.layer_norm(tokens), x)


STEPS: dict[str, Step] = {
    "a layer of one pixel": lambda m, x: m.one(x),
    "a layer of windows": lambda m, x: m.window(x),
    "a depthwise layer": lambda m, x: m.depthwise(x),
    "a linear layer": lambda m, x: _image(m.linear(_tokens(x)), x),
    "a linear layer on the last axis": lambda m, x: m.linear(x.permute(0, 2, 3, 1)).permute(0, 3, 1, 2),
    "a batch norm": lambda m, x: m.batch_norm(x),
    "a layer norm": lambda m, x: _image(m.layer_norm(_tokens(x)), x),
    "an activation": lambda m, x: F.gelu(x),
    "an activation in place": lambda m, x: F.relu_(x * 1.5),
    "a factor": lambda m, x: x * 0.5,
    "a sum": lambda m, x: x + m.one(x),
    "numbers by position": lambda m, x: x + m.numbers[:, : x.shape[2], : x.shape[3]] if x.shape[3] <= SIDE else x,
    "a gate": lambda m, x: x * torch.sigmoid(m.one(x.mean((2, 3), keepdim=True))),
    "a gate by pixel": lambda m, x: x * torch.sigmoid(x[:, 2:3]),
    "the first rows": lambda m, x: x[:, :, : max(x.shape[2] // 2, 1)],
    "without the first column": lambda m, x: x[..., 1:] if x.shape[3] > 1 else x,
    "every second row": lambda m, x: x[:, :, ::2],
    "without the first token": lambda m, x: _image(_tokens(x)[:, min(1, x.shape[2] * x.shape[3] - 1) :], x),
    "with a token": _with_token,
    "every second channel twice": lambda m, x: torch.cat([x[:, ::2], x[:, ::2]], 1),
    "chunks in another order": lambda m, x: torch.cat(x.chunk(2, 1)[::-1], 1),
    "rows as columns": lambda m, x: x.transpose(2, 3),
    "channels as rows": lambda m, x: x.transpose(1, 2) if x.shape[2] == CHANNELS else x,
    "a flip": lambda m, x: x.flip(3),
    "a roll": lambda m, x: x.roll(1, 2),
    "listed channels": lambda m, x: x[:, [0, 2, 1, 3, 4, 5, 7, 6]],
    "one channel for all": lambda m, x: x[:, :1].expand_as(x) + x,
    "a pool": lambda m, x: F.max_pool2d(x, 2, ceil_mode=True),
    "a mean of windows": lambda m, x: F.avg_pool2d(x, 3, 1, 1),
    "larger": lambda m, x: F.interpolate(x, scale_factor=2) if x.shape[3] <= SIDE else x,
    "shuffled pixels": lambda m, x: F.pixel_shuffle(torch.cat([x] * 4, 1), 2) if x.shape[3] <= SIDE else x,
    "padding": lambda m, x: F.pad(x, (1, 0, 0, 1)),
    "whole numbers": lambda m, x: x.to(torch.int64).type_as(x),
    "double precision": lambda m, x: x.double().to(m.token.dtype),
    "torch's attention": lambda m, x: _joined(F.scaled_dot_product_attention(*_split(m, x, 2)), x),
    "attention by products": _products,
    "attention with many queries": _many_queries,
    "attention with norms": _normed,
    "attention of half of the queries": _half_of_the_queries,
    "attention in rows": _windows,
}
ENDS: dict[str, Callable[[Tensor], Tensor]] = {
    "a mean": lambda x: x.mean((2, 3)),
    "a mean of squares": lambda x: (x * x).mean((2, 3)),
    "all numbers": lambda x: x.flatten(1),
    "one pixel": lambda x: x[:, :, 0, -1],
    "channels last": lambda x: x.permute(0, 2, 3, 1).flatten(1),
}
FREE = [name for name in STEPS if name not in ("a flip", "a roll", "listed channels", "whole numbers")]


@pytest.mark.slow
@given(
    steps=st.lists(st.sampled_from(list(STEPS)), min_size=1, max_size=5),
    end=st.sampled_from(list(ENDS)),
    mode=st.sampled_from(MODES),
)
@example(steps=["without the first token", "a layer of windows"], end="a mean", mode="sparse")
@example(steps=["a layer of one pixel", "the first rows", "a layer of windows"], end="a mean", mode="sparse")
@example(steps=["a layer of one pixel", "the first rows", "a pool"], end="all numbers", mode="sparse")
@example(steps=["whole numbers", "a layer of one pixel"], end="a mean", mode="everything on")
@example(steps=["a flip"], end="all numbers", mode="everything on")
@example(steps=["attention with many queries"], end="a mean", mode="everything on")
def test_a_drawn_network_has_the_same_logits_as_its_graph_or_none(steps: list[str], end: str, mode: str) -> None:
    torch.manual_seed(0)
    _, net = tiny_net(Drawn(steps, end), SIDE)
    draw_tiny(net, mode, torch.Generator().manual_seed(len(steps)))
    try:
        network = build_graph(net)
    except NoFileError as error:
        assert any(name in error.reason for name in ("the classifier reads", "layer '", "the operation '"))
        return
    assert_same(net, network, cut(network))


@pytest.mark.parametrize("step", FREE)
def test_every_step_by_itself_becomes_a_graph(step: str) -> None:
    torch.manual_seed(0)
    _, net = tiny_net(Drawn([step], "a mean of squares"), SIDE)
    assert_same(net, build_graph(net))
