"""Attention as one operation of a graph: torch's function, or products, a softmax and products of their own.

Legend: W = windows, H = heads, Q and K = pixels of a window in q and k, D = domains.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import prod, sqrt
from typing import Any

import numpy as np
import torch
from torch import Tensor, fx

from prunus.arrays import Doubles
from prunus.errors import BundleError
from prunus.graph.limits import MAX_SIDE
from prunus.graph.operations import Attention
from prunus.lowering.builder import GraphBuilder, Scores
from prunus.lowering.views import View, in_order


@dataclass(frozen=True)
class _Heads:
    """Where a traced tensor (..., pixels, channels of a head) lies in its value."""

    value: int
    first: int
    step: int
    pixels: Tensor  # (windows, pixels of a window)
    factor: float


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
    first, keys, v = (builder.values[name] for name in (scores.first, scores.second, names[1]))
    if not (isinstance(first, View) and isinstance(keys, View) and isinstance(v, View)):
        return None
    shapes = builder.traced.shapes
    k = View(keys.value, keys.over(shapes[scores.second]).mT, keys.factor)
    queries = View(first.value, first.over(shapes[scores.first]), first.factor)
    values = View(v.value, v.over(shapes[names[1]]), v.factor)
    return _attend(builder, (queries, k, values), scores.factor, scores.bias)


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


def scaled_dot_product(builder: GraphBuilder, node: fx.Node) -> View | None:
    """Add torch's attention."""
    names = ("query", "key", "value", "attn_mask", "dropout_p", "is_causal", "scale", "enable_gqa")
    args = dict(zip(names, node.args, strict=False)) | dict(node.kwargs)
    read = [str(getattr(args.get(name), "name", "")) for name in names[:3]]
    views = [builder.values.get(name) for name in read]
    if args.get("is_causal") or args.get("enable_gqa") or args.get("dropout_p"):
        return None
    q, k, v = (
        View(view.value, view.over(builder.traced.shapes[name]), view.factor) if isinstance(view, View) else None
        for name, view in zip(read, views, strict=True)
    )
    if q is None or k is None or v is None or q.positions is None:
        return None
    bias = _bias(builder, args.get("attn_mask"))
    if args.get("attn_mask") is not None and bias is None:
        return None
    scale = args.get("scale")
    factor = float(scale) if isinstance(scale, (int, float)) else 1 / sqrt(q.positions.shape[-1])
    return _attend(builder, (q, k, v), factor, bias)


def _bias(builder: GraphBuilder, mask: Any) -> tuple[Tensor, ...] | None:  # noqa: ANN401  # a node or None
    """Return what is added to the scores in each domain."""
    constants = builder.constants.get(getattr(mask, "name", ""))
    if constants is None or any(constant.dtype == torch.bool for constant in constants):
        return None
    return tuple(constants)


def _attend(builder: GraphBuilder, views: Sequence[View], scale: float, bias: Sequence[Tensor] | None) -> View | None:
    """Append an attention; q, k and v are (..., pixels, channels of a head)."""
    heads = [_lead(builder, view) for view in views]
    rank = max(view.positions.ndim for view in views if view.positions is not None)
    shapes = [tuple(view.positions.shape) for view in views if view.positions is not None]
    if any(found is None for found in heads) or any(len(shape) != rank for shape in shapes):
        return None
    q, k, v = (found for found in heads if found is not None)
    lead = shapes[0][:-2]
    if any(shape[:-2] != lead for shape in shapes) or v.factor != 1.0:
        return None
    pixels = [found.pixels for found in (q, k, v)]
    count = prod(lead) // len(pixels[0])
    operation = Attention(
        op="attention",
        inputs=(q.value, k.value, v.value),
        heads=count,
        dims=(shapes[0][-1], shapes[2][-1]),
        first=(q.first, k.first, v.first),
        step=(q.step, k.step, v.step),
        scale=scale * q.factor * k.factor,
    )
    placed = _placed(builder, operation, pixels)
    if placed is None:
        return None
    operation, order = placed
    tensors: dict[str, Doubles | None] = {}
    if bias is not None:
        wide = [b.double().expand(*lead, shapes[0][-2], shapes[1][-2]) for b in bias]
        biases_DWHQK = torch.stack([b.reshape(-1, count, *b.shape[-2:]) for b in wide])
        found = _with_bias(operation, biases_DWHQK, order, builder.value_shapes[q.value][1:])
        if found is None:
            return None
        operation, tensors["bias"] = found
    value = builder.add(operation, tensors)
    height, width = builder.value_shapes[value][1:]
    channels = torch.arange(count * shapes[2][-1]).reshape(1, count, 1, -1)
    positions = channels * (height * width) + pixels[0][:, None, :, None]
    return View(value, in_order(positions.reshape(*lead, shapes[0][-2], shapes[2][-1])))


def _lead(builder: GraphBuilder, view: View) -> _Heads | None:
    """Find the windows and heads among the leading axes of a view (..., pixels, channels of a head)."""
    found = _found(builder, view)
    if found is not None:
        return found
    positions = view.positions
    assert positions is not None
    if positions.ndim != 4:
        return None
    windows, heads, pixels, dim = positions.shape
    moved = positions.permute(1, 3, 0, 2)  # heads and channels, then windows and pixels
    sides = (windows, pixels)
    value = builder.copied(View(view.value, moved), moved.shape, (heads * dim, *sides))
    numbers = torch.arange(positions.numel()).reshape(moved.shape).permute(2, 0, 3, 1)
    return _found(builder, View(value, numbers, view.factor))


def _found(builder: GraphBuilder, view: View) -> _Heads | None:
    positions = view.positions
    assert positions is not None
    _, height, width = builder.value_shapes[view.value]
    *lead, pixels, dim = positions.shape
    channels = positions // (height * width)
    places = positions % (height * width)
    if bool((places != places[..., :1]).any()) or bool((channels != channels[..., :1, :]).any()):
        return None
    is_window = [_varies(places, axis) for axis in range(len(lead))]
    is_head = [_varies(channels, axis) for axis in range(len(lead))]
    if any(window and head for window, head in zip(is_window, is_head, strict=True)):
        return None
    if is_head != sorted(is_head):  # windows come first
        return None
    split = lead[: len(lead) - sum(is_head)]
    by_head = channels.reshape(prod(split), -1, pixels, dim)
    by_window = places.reshape(prod(split), -1, pixels, dim)
    if by_head.shape[1] == 1 and len(lead) and not any(is_window):
        split = lead[:-1]  # one head, or all windows are one
        by_head = channels.reshape(prod(split), -1, pixels, dim)
        by_window = places.reshape(prod(split), -1, pixels, dim)
    first_HD = by_head[0, :, 0]
    first = int(first_HD[0, 0])
    step = int(first_HD[1, 0]) - first if len(first_HD) > 1 else dim
    expected = first + step * torch.arange(len(first_HD))[:, None] + torch.arange(dim)
    if step < 0 or not torch.equal(first_HD, expected) or bool((by_head != expected[None, :, None]).any()):
        return None
    return _Heads(view.value, first, step, by_window[:, 0, :, 0], view.factor)


def _varies(numbers: Tensor, axis: int) -> bool:
    return bool((numbers != numbers.narrow(axis, 0, 1)).any())


def _placed(
    builder: GraphBuilder, operation: Attention, pixels: Sequence[Tensor]
) -> tuple[Attention, list[int]] | None:
    """Describe which pixels see each other; return the operation and its window for each of the traced tensor's."""
    rows, *columns = (table.numpy() for table in pixels)
    shapes = [builder.value_shapes[value] for value in operation.inputs]
    if len(rows) == 1:
        whole = [np.arange(prod(shape[1:]))[None] for shape in shapes]
        is_whole = all(np.array_equal(table, all_) for table, all_ in zip((rows, *columns), whole, strict=True))
        return (operation, [0]) if is_whole else None
    if any(not np.array_equal(rows, table) for table in columns):
        return None
    width = shapes[0][2]
    for start in range(len(rows)):  # a window that does not go around the border tells the distances
        row, column = np.divmod(rows[start], width)
        lengths = len(np.unique(row)), len(np.unique(column))
        if prod(lengths) != rows.shape[1] or (row != sorted(row)).any():
            continue
        every = tuple(int(np.diff(np.unique(axis)).min(initial=MAX_SIDE)) for axis in (row, column))
        every = (every[0] if lengths[0] > 1 else 1, every[1] if lengths[1] > 1 else 1)
        shift = int(row[0]) % (lengths[0] * every[0]), int(column[0]) % (lengths[1] * every[1])
        for offset in ((0, 0), shift):
            update = {"window": lengths, "every": every, "shift": offset}
            windowed = operation.model_copy(update=update)
            order = _matched(windowed, rows, shapes)
            if order is not None:
                return windowed, order
    return None


def _matched(operation: Attention, rows: Any, shapes: Sequence[Any]) -> list[int] | None:  # noqa: ANN401
    try:
        operation.shape(shapes)
    except BundleError:
        return None
    numbers = {tuple(window): number for number, window in enumerate(operation.windows(shapes[0][1:]).tolist())}
    order = [numbers.get(tuple(window), -1) for window in rows.tolist()]
    return order if sorted(order) == list(range(len(numbers))) else None


def _with_bias(
    operation: Attention, biases_DWHQK: Tensor, order: Sequence[int], sides: Sequence[int]
) -> tuple[Attention, Doubles] | None:
    """Divide a bias into one that all windows share and what is added where a border is between two pixels."""
    pairs = (int(biases_DWHQK.shape[-2]), int(biases_DWHQK.shape[-1]))
    shared_DHQK = biases_DWHQK[:, 0]
    rest = biases_DWHQK - shared_DHQK[:, None]
    if not bool(rest.any()):
        return operation.model_copy(update={"pairs": pairs}), shared_DHQK.numpy()
    if operation.window is None:
        return None
    regions = torch.from_numpy(operation.regions(sides))[list(order)]
    is_apart_WQK = regions[:, :, None] != regions[:, None, :]
    inner = next((number for number in range(len(order)) if not is_apart_WQK[number].any()), None)
    if inner is None:
        return None
    shared_DHQK = biases_DWHQK[:, inner]
    rest = biases_DWHQK - shared_DHQK[:, None]
    apart = float(rest.flatten()[rest.abs().argmax()])
    expected = apart * is_apart_WQK[None, :, None].double()
    if not torch.allclose(rest, expected.expand_as(rest), atol=1e-4):
        return None
    return operation.model_copy(update={"pairs": pairs, "apart": apart}), shared_DHQK.numpy()
