"""Calls that only move numbers: they change which numbers a tensor shows, and add nothing to a graph."""

import operator
from collections.abc import Sequence
from dataclasses import replace
from math import prod

import torch
import torch.nn.functional as F
from torch import Tensor, fx, nn

from prunus.lowering.builder import GraphBuilder, Rule, Scores, called
from prunus.lowering.rules.activations import Key
from prunus.lowering.rules.resizing import weighted_means
from prunus.lowering.views import View, in_order

# reshapes keep the order of the numbers, and all of them
RESHAPES: tuple[Key, ...] = (
    *(torch.flatten, torch.reshape, torch.squeeze, torch.unsqueeze, torch.unflatten, nn.Flatten, nn.Unflatten),
    *("flatten", "view", "reshape", "squeeze", "unsqueeze", "unflatten", "view_as", "reshape_as"),
)
# a graph can only copy numbers that are equally far apart: what reads a flip is refused, unless it is flipped back
MOVES: tuple[Key, ...] = (
    *(torch.permute, torch.transpose, torch.swapaxes, torch.movedim, torch.narrow, torch.select),
    *(torch.roll, torch.flip, torch.chunk, torch.split, torch.tensor_split, torch.unbind, torch.index_select),
    *(F.pixel_shuffle, F.pixel_unshuffle, F.channel_shuffle, nn.PixelShuffle, nn.PixelUnshuffle, nn.ChannelShuffle),
    *("permute", "transpose", "swapaxes", "movedim", "narrow", "select", "roll", "flip", "chunk", "split", "t"),
    *("tensor_split", "unbind", "index_select", "expand", "repeat", "__getitem__", "broadcast_to"),
    *(getattr, "repeat_interleave", torch.repeat_interleave, torch.tile, "tile"),
)


def reshape(builder: GraphBuilder, node: fx.Node) -> View | Scores | None:
    """Return a view in another shape."""
    name = builder.first(node)
    view = builder.values[name]
    if isinstance(view, Scores):
        return _reshaped_scores(view, builder.traced.shapes[name], builder.traced.shapes[node.name])
    if not isinstance(view, View) or getattr(node.args[0], "name", "") != name:
        return None
    positions = None if view.positions is None else view.positions.reshape(builder.traced.shapes[node.name])
    return View(view.value, positions, view.factor)


def _reshaped_scores(scores: Scores, before: Sequence[int], after: Sequence[int]) -> Scores | None:
    """Split or join windows and heads, as networks do that add a bias by window and another by head."""
    if tuple(before[-2:]) != tuple(after[-2:]):
        return None
    bias = None if scores.bias is None else tuple(b.expand(*before).reshape(*after) for b in scores.bias)
    return replace(scores, bias=bias)


def move(builder: GraphBuilder, node: fx.Node) -> View | tuple[View, ...] | None:
    """Let torch move the positions of a view's numbers."""
    return _moved(builder, node, torch.int64)


def expand_as(builder: GraphBuilder, node: fx.Node) -> View | None:
    """Repeat numbers to the shape of another tensor, whatever that holds."""
    name = str(getattr(node.args[0], "name", ""))
    view = builder.values.get(name)
    if not isinstance(view, View):
        return None
    shapes = builder.traced.shapes
    return _shown(builder, view, view.over(shapes[name]).expand(shapes[node.name]))


def resize(builder: GraphBuilder, node: fx.Node) -> View | tuple[View, ...] | int | None:
    """Repeat pixels, or weigh them; torch only repeats floating-point numbers."""
    mode = builder.settings(node, ("size", "scale_factor", "mode")).get("mode", "nearest")
    if mode in ("nearest", "nearest-exact"):
        return _moved(builder, node, torch.float64)
    return weighted_means(builder, node)


def _moved(builder: GraphBuilder, node: fx.Node, dtype: torch.dtype) -> View | tuple[View, ...] | None:
    name = builder.first(node)
    view = builder.values[name]
    if not isinstance(view, View):
        return None
    positions = view.over(builder.traced.shapes[name]).to(dtype)
    args, kwargs = builder.arguments(node, 0)
    args, kwargs = fx.node.map_arg((args, kwargs), lambda read: positions if read.name == name else read)
    result = called(builder.traced, node)(*args, **kwargs)
    if isinstance(result, Tensor):
        return _shown(builder, view, result.long())
    return tuple(_shown(builder, view, part.long()) for part in result)


def _shown(builder: GraphBuilder, view: View, positions: Tensor) -> View:
    is_whole = positions.numel() == prod(builder.value_shapes[view.value])
    return View(view.value, in_order(positions) if is_whole else positions, view.factor)


def item(builder: GraphBuilder, node: fx.Node) -> View | tuple[View, ...] | None:
    """Take one of several results, or a part of a tensor."""
    parts = builder.values[builder.first(node)]
    if isinstance(parts, tuple) and isinstance(node.args[1], int):
        return parts[node.args[1]]
    return move(builder, node)


REARRANGING: dict[Key, Rule] = {
    **dict.fromkeys(RESHAPES, reshape),
    **dict.fromkeys(MOVES, move),
    **dict.fromkeys((nn.Upsample, F.interpolate), resize),
    "expand_as": expand_as,
    operator.getitem: item,
}
