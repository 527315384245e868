"""Attention as one operation of a graph: torch's function, or products, a softmax and products of their own.

Legend: D = domains, W = windows, H = heads, Q and K = pixels of a window in q and in k.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from math import prod, sqrt
from typing import Any

import torch
from torch import Tensor, fx

from prunus.arrays import Doubles
from prunus.graph.operations import Attention
from prunus.lowering.builder import GraphBuilder, NotInAGraphError, Scores
from prunus.lowering.rules.heads import Heads, copy_heads, find_heads, positions_of_heads
from prunus.lowering.rules.windows import place_bias, place_windows
from prunus.lowering.views import View, in_order

Bias = Sequence[Tensor]  # what is added to the scores, in each domain
ARGUMENTS = ("query", "key", "value", "attn_mask", "dropout_p", "is_causal", "scale", "enable_gqa")
MASKED = -1e4  # in place of minus infinity, which no file holds: its exponential is 0 beside any score


def multiply_matrices(builder: GraphBuilder, node: fx.Node) -> View | Scores | None:
    """Start an attention with the products of q and k, or end one with those of its softmax and v."""
    names = [str(getattr(arg, "name", "")) for arg in node.args]
    if len(names) != 2 or any(name not in builder.values for name in names):
        return None
    scores = builder.values[names[0]]
    if isinstance(scores, View):
        return Scores(names[0], names[1])
    if not isinstance(scores, Scores) or not scores.is_softmax:
        return None
    q, k = _shown(builder, scores.first), _shown(builder, scores.second)
    k = replace(k, positions=positions_of_heads(k).mT)
    return _attend(builder, (q, k, _values(builder, names[1])), scores.factor, scores.bias)


def softmax(builder: GraphBuilder, node: fx.Node) -> Scores | None:
    """Apply the softmax of an attention, which goes along the last axis."""
    name = builder.first(node)
    scores = builder.values[name]
    dim = builder.settings(node, ("dim",)).get("dim")
    is_last = dim in (-1, len(builder.traced.shapes[name]) - 1)
    return replace(scores, is_softmax=True) if isinstance(scores, Scores) and is_last else None


def pass_scores(builder: GraphBuilder, node: fx.Node) -> View | Scores | tuple[View, ...]:
    """Pass on what does not change, such as what dropout leaves as it is."""
    return builder.values[builder.first(node)]


def scaled_dot_product(builder: GraphBuilder, node: fx.Node) -> View:
    """Add torch's attention."""
    args = dict(zip(ARGUMENTS, node.args, strict=False)) | dict(node.kwargs)
    for name in ("enable_gqa", "dropout_p"):
        if args.get(name):
            raise NotInAGraphError(f"has {name}, which attention in a graph does not have")
    names = [str(getattr(args.get(name), "name", "")) for name in ARGUMENTS[:3]]
    if any(name not in builder.values for name in names):
        raise NotInAGraphError("has a constant as query, key or value, which attention in a graph does not have")
    q, k, v = _shown(builder, names[0]), _shown(builder, names[1]), _values(builder, names[2])
    scale = args.get("scale")
    factor = 1 / sqrt(builder.traced.shapes[names[0]][-1]) if scale is None else float(scale)  # type: ignore[arg-type]
    pairs = (builder.traced.shapes[names[0]][-2], builder.traced.shapes[names[1]][-2])
    return _attend(builder, (q, k, v), factor, _mask(builder, args, pairs))


def _shown(builder: GraphBuilder, name: str) -> View:
    """Return a traced tensor with its positions; scores are multiplied by its factor."""
    view = builder.values[name]
    if not isinstance(view, View):
        view = builder.view(name)  # which says what is wrong
    return replace(view, positions=view.over(builder.traced.shapes[name]))


def _values(builder: GraphBuilder, name: str) -> View:
    """Return the values of an attention, which have no factor."""
    builder.view(name)  # multiplies them by the factor
    return _shown(builder, name)


def _mask(builder: GraphBuilder, args: dict[str, Any], pairs: tuple[int, int]) -> Bias | None:
    """Return what is added to the scores in each domain, if there is anything."""
    if args.get("is_causal"):
        return [_as_bias(torch.ones(pairs, dtype=torch.bool).tril())] * len(builder.domains)
    mask = args.get("attn_mask")
    if mask is None:
        return None
    if mask.name not in builder.constants:
        raise NotInAGraphError("has a mask that depends on the image, which attention in a graph does not have")
    return [_as_bias(constant) for constant in builder.constants[mask.name]]


def _as_bias(mask: Tensor) -> Tensor:
    """Return a mask of booleans, which are true where a pixel is seen, as a bias; others are one."""
    return torch.zeros(mask.shape).masked_fill(~mask, MASKED) if mask.dtype == torch.bool else mask


def _attend(builder: GraphBuilder, views: Sequence[View], scale: float, bias: Bias | None) -> View:
    """Append an attention; q, k and v are (..., pixels, channels of a head)."""
    shapes = [positions_of_heads(view).shape for view in views]
    lead = shapes[0][:-2]
    if any(shape[:-2] != lead for shape in shapes):
        raise NotInAGraphError(
            "has other heads or windows in q than in k or v, which attention in a graph does not have"
        )
    for qkv in _arrangements(builder, views):
        operation = _operation(qkv, prod(lead) // len(qkv[0].pixels), (shapes[0][-1], shapes[2][-1]), scale)
        placed = place_windows(operation, [builder.value_shapes[heads.value] for heads in qkv], qkv)
        if placed is not None:
            break
    else:
        raise NotInAGraphError("has pixels that see each other in a way that attention in a graph does not have")
    operation, order = placed
    tensors: dict[str, Doubles | None] = {}
    if bias is not None:
        wide = [b.double().clamp(min=MASKED).expand(*lead, shapes[0][-2], shapes[1][-2]) for b in bias]
        biases_DWHQK = torch.stack([b.reshape(-1, operation.heads, *b.shape[-2:]) for b in wide])
        found = place_bias(operation, biases_DWHQK, order, builder.value_shapes[qkv[0].value][1:])
        if found is None:
            raise NotInAGraphError("has a bias that differs between windows, which attention in a graph does not have")
        operation, tensors["bias"] = found
    value = builder.add(operation, tensors)
    size = prod(builder.value_shapes[value][1:])
    channels = torch.arange(operation.heads * shapes[2][-1]).reshape(1, operation.heads, 1, -1)
    positions = channels * size + qkv[0].pixels[:, None, :, None]
    return View(value, in_order(positions.reshape(*lead, shapes[0][-2], shapes[2][-1])))


def _arrangements(builder: GraphBuilder, views: Sequence[View]) -> Iterator[list[Heads]]:
    """Yield q, k and v where they are, then, if that can't be used, with copies of those that are not a whole value."""
    shapes = [builder.value_shapes[view.value] for view in views]
    found = [find_heads(view, shape) for view, shape in zip(views, shapes, strict=True)]
    yield [heads or copy_heads(builder, view) for view, heads in zip(views, found, strict=True)]
    yield [
        heads if heads and heads.are_whole(shape) else copy_heads(builder, view)
        for view, heads, shape in zip(views, found, shapes, strict=True)
    ]


def _operation(qkv: Sequence[Heads], heads: int, dims: tuple[int, int], scale: float) -> Attention:
    q, k, v = qkv
    return Attention(
        op="attention",
        inputs=(q.value, k.value, v.value),
        heads=heads,
        dims=dims,
        first=(q.first, k.first, v.first),
        step=(q.step, k.step, v.step),
        scale=scale * q.factor * k.factor,
    )
