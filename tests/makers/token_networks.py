"""Small networks on tokens, and graphs of the operations on tokens."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from prunus.graph.operations import Graph
from tests.makers.graph_bundles import convolution, make_graph

ONE = {"kernel": (1, 1), "pads": (0, 0, 0, 0)}


class Block(nn.Module):
    """A transformer's block, with torch's attention or with products and a softmax."""

    def __init__(self, channels: int, heads: int, fused: bool) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(channels)
        self.qkv = nn.Linear(channels, 3 * channels)
        self.proj = nn.Linear(channels, channels)
        self.after = nn.LayerNorm(channels)
        self.mlp = nn.Sequential(nn.Linear(channels, 2 * channels), nn.GELU(), nn.Linear(2 * channels, channels))
        self.heads = heads
        self.fused = fused

    def forward(self, x: Tensor) -> Tensor:
        """Attend, then mix the channels of each token."""
        images, tokens, channels = x.shape
        split = self.qkv(self.norm(x)).reshape(images, tokens, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        q, k, v = split.unbind(0)
        if self.fused:
            means = F.scaled_dot_product_attention(q, k, v)
        else:
            means = ((q * q.shape[-1] ** -0.5) @ k.transpose(-2, -1)).softmax(dim=-1) @ v
        x = x + self.proj(means.transpose(1, 2).reshape(images, tokens, channels))
        result: Tensor = x + self.mlp(self.after(x))
        return result


class TinyTransformer(nn.Module):
    """Patches, a class token, position embeddings and two blocks."""

    def __init__(self, fused: bool = True, pooled: bool = False) -> None:
        super().__init__()
        self.patch = nn.Conv2d(3, 8, 2, 2)
        self.token = nn.Parameter(torch.randn(1, 1, 8))
        self.positions = nn.Parameter(torch.randn(1, 17, 8))
        self.blocks = nn.Sequential(Block(8, 2, fused), Block(8, 2, fused))
        self.norm = nn.LayerNorm(8)
        self.pooled = pooled

    def forward(self, x: Tensor) -> Tensor:
        """Return the class token, or the mean of the others."""
        x = self.patch(x).flatten(2).transpose(1, 2)
        x = torch.cat([self.token.expand(len(x), -1, -1), x], dim=1) + self.positions
        x = self.norm(self.blocks(x))
        return x[:, 1:].mean(1) if self.pooled else x[:, 0]


def attention(inputs: tuple[int, int, int], **fields: object) -> dict[str, object]:
    """Write an attention of two heads over a value of q, k and v with 8 channels each."""
    usual: dict[str, object] = {"op": "attention", "heads": 2, "dims": (4, 4), "scale": 0.5}
    return usual | {"inputs": inputs, "first": (0, 8, 16), "step": (4, 4, 4)} | fields


def token_graph() -> Graph:
    """Return a graph with every operation on tokens, for images of 8 pixels a side."""
    return make_graph(
        convolution("patch", [0], (8, 3), kernel=(2, 2), stride=(2, 2), pads=(0, 0, 0, 0)),
        convolution("split", [1], (24, 8), **ONE),
        attention((2, 2, 2), window=(2, 2), shift=(1, 1), apart=-100.0, pairs=(4, 4)),
        attention((2, 2, 2), window=(2, 2), every=(2, 2)),
        {"op": "add", "inputs": (3, 4)},
        {"op": "join_pixels", "inputs": (5, 1), "count": 2},
        {"op": "affine_map", "inputs": (6,), "sides": (1, 34)},
        {"op": "layer_norm", "inputs": (7,), "eps": 1e-6},
        convolution("qkv", [8], (24, 8), **ONE, activation="gelu"),
        attention((9, 9, 9), pairs=(34, 34)),
        {"op": "rearrange", "inputs": (10,), "target": (34, 1, 8), "sizes": (34, 8), "strides": (1, 34)},
        convolution("tokens", [11], (5, 34), **ONE),
        {"op": "rearrange", "inputs": (12,), "target": (5, 1, 2), "sizes": (5, 2), "strides": (8, 3), "offset": 1},
    )
