"""Attention becomes one operation, whether torch's function or products and a softmax compute it."""

from __future__ import annotations

from collections.abc import Callable

import onnx
import onnxruntime
import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from prunus.errors import BackboneError
from prunus.graph.cut import cut
from prunus.lowering.build import build_graph
from prunus.onnx.model import domain_model
from prunus.runtime.native_engine import NativeEngine
from prunus.runtime.numpy_engine import NumpyEngine
from tests.lowering.test_build import assert_same
from tests.makers.masked_networks import TWO_DOMAINS, assert_same_logits, packed, tiny_net
from tests.makers.token_networks import TinyTransformer


@pytest.mark.parametrize("fused", [True, False])
@pytest.mark.parametrize("pooled", [True, False])
def test_a_transformer_becomes_a_graph_with_the_same_logits(fused: bool, pooled: bool) -> None:
    torch.manual_seed(0)
    _, net = tiny_net(TinyTransformer(fused, pooled))
    network = build_graph(net)
    assert [operation.op for operation in network.graph].count("attention") == 2
    assert_same(net, network, cut(network))


class Attending(nn.Module):
    """Attention over the pixels of an image, in a form of its own."""

    def __init__(self, form: Form, heads: int, channels: int = 8) -> None:
        super().__init__()
        self.conv, self.qkv = nn.Conv2d(3, channels, 1), nn.Linear(channels, 3 * channels)
        self.norm, self.scale = nn.LayerNorm(channels // heads), nn.Parameter(torch.rand(channels // heads) + 0.5)
        self.bias = nn.Parameter(torch.randn(heads, 16, 16))
        self.form, self.heads = form, heads

    def forward(self, x: Tensor) -> Tensor:
        """Return the mean over all pixels."""
        tokens = self.conv(x).flatten(2).transpose(1, 2)
        means = self.form(self, *self.split(self.qkv(tokens)))
        return means.transpose(1, 2).flatten(2).mean(1)

    def split(self, qkv: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Return q, k and v: (images, heads, pixels, channels of a head)."""
        q, k, v = torch.unflatten(qkv, 2, (3, self.heads, -1)).permute(2, 0, 3, 1, 4).unbind(0)
        return q, k, v


Form = Callable[[Attending, Tensor, Tensor, Tensor], Tensor]
sdpa = F.scaled_dot_product_attention


def _lower(size: int) -> Tensor:
    return torch.ones(size, size, dtype=torch.bool).tril()


def _infinite(size: int) -> Tensor:
    return torch.zeros(size, size).masked_fill(~_lower(size), -torch.inf)


def _merged(m: Attending, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """Attend with the heads as images, as code with `bmm` does."""
    q, k, v = (x.flatten(0, 1) for x in (q, k, v))
    means = torch.bmm((torch.bmm(q, k.mT) * 0.3).softmax(-1), v)
    return torch.unflatten(means, 0, (-1, m.heads))


def _by_channels(m: Attending, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """Attend between channels, as XCiT does."""
    return ((q.mT @ k).softmax(-1) @ v.mT).mT


FORMS: dict[str, Form] = {
    "plain": lambda m, q, k, v: sdpa(q, k, v),
    "a factor and a bias": lambda m, q, k, v: sdpa(q * 0.3, k * 2.0, v, attn_mask=m.bias, scale=0.7),
    "changed values": lambda m, q, k, v: sdpa(q, k, v * 2.0 + 1.0),
    "a sum of values": lambda m, q, k, v: sdpa(q, k, v + m.scale),
    "normed queries and keys": lambda m, q, k, v: sdpa(m.norm(q), m.norm(k), v),
    "scaled channels": lambda m, q, k, v: sdpa(q * m.scale, k, v * m.scale),
    "one query": lambda m, q, k, v: sdpa(q[:, :, :1], k, v),
    "every second query": lambda m, q, k, v: sdpa(q[:, :, ::2], k, v),
    "fewer keys": lambda m, q, k, v: sdpa(q, k[:, :, 1:], v[:, :, 1:]),
    "one head of keys for all": lambda m, q, k, v: sdpa(q, k[:, :1].expand_as(k), v[:, :1].expand_as(v)),
    "causal": lambda m, q, k, v: sdpa(q, k, v, is_causal=True),
    "a mask of booleans": lambda m, q, k, v: sdpa(q, k, v, attn_mask=_lower(16)),
    "an infinite mask": lambda m, q, k, v: sdpa(q, k, v, attn_mask=_infinite(16).to(q)),
    "merged heads": _merged,
    "between channels": _by_channels,
}


@pytest.mark.parametrize("heads", [1, 2, 4, 8])
@pytest.mark.parametrize("name", FORMS)
def test_attention_in_many_forms_is_that_of_torch(name: str, heads: int) -> None:
    torch.manual_seed(0)
    _, net = tiny_net(Attending(FORMS[name], heads), 4)
    network = build_graph(net)
    assert [operation.op for operation in network.graph].count("attention") == 1
    assert_same(net, network, cut(network))


@pytest.mark.parametrize("name", FORMS)
def test_every_engine_computes_attention_in_many_forms(name: str) -> None:
    torch.manual_seed(0)
    backbone, net = tiny_net(Attending(FORMS[name], 2), 4)
    bundle = packed(net, backbone, TWO_DOMAINS)
    models = {domain: domain_model(onnx, bundle, domain).SerializeToString() for domain in bundle.domains}
    sessions = {domain: onnxruntime.InferenceSession(model) for domain, model in models.items()}
    for answer in (
        NumpyEngine(bundle).logits,
        NativeEngine(bundle).logits,
        lambda images, domain: sessions[domain].run(None, {"images": images})[0],
    ):
        assert_same_logits(net, answer, sensitive=False)


REFUSED: dict[str, tuple[Form, str]] = {
    "fewer heads of keys": (lambda m, q, k, v: sdpa(q, k[:, :1], v[:, :1], enable_gqa=True), "has enable_gqa"),
    "a drawn mask": (lambda m, q, k, v: sdpa(q, k, v, dropout_p=1e-9), "has dropout_p"),
    "a mask of the image": (lambda m, q, k, v: sdpa(q, k, v, attn_mask=q @ k.mT), "has a mask that depends on"),
    "constant keys": (lambda m, q, k, v: sdpa(q, m.bias[None, :, :, :4], v), "has a constant as query, key or value"),
    "one head of keys": (lambda m, q, k, v: sdpa(q, k[:, :1], v[:, :1]), "has other heads or windows in q than in k"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_attention_in_other_forms_is_refused_with_the_reason(name: str) -> None:
    form, reason = REFUSED[name]
    _, net = tiny_net(Attending(form, 2), 4)
    with pytest.raises(BackboneError, match=f"the operation 'scaled_dot_product_attention' .*{reason}"):
        build_graph(net)


class Interleaved(Attending):
    """Each head has its channels of q, k and v side by side."""

    def split(self, qkv: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Return q, k and v."""
        q, k, v = torch.unflatten(qkv, 2, (self.heads, 3, -1)).permute(3, 0, 2, 1, 4).unbind(0)
        return q, k, v


@pytest.mark.parametrize("heads", [1, 2, 4, 8])
def test_channels_of_q_k_and_v_may_lie_side_by_side(heads: int) -> None:
    torch.manual_seed(0)
    _, net = tiny_net(Interleaved(FORMS["plain"], heads), 4)
    network = build_graph(net)
    assert [operation.op for operation in network.graph] == ["conv", "conv", "attention", "mean"]
    assert_same(net, network, cut(network))


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
