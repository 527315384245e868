"""Calls that make images of another size: padding, and pixels that are weighted means of other pixels.

Legend: P = pixels of the result, Q = pixels of the source.
"""

from collections.abc import Sequence
from math import prod

import torch
from torch import Tensor, fx

from prunus.graph.operations import AppendZeros, Attention, Cat
from prunus.lowering.builder import GraphBuilder, called
from prunus.lowering.views import View, in_order, pixels_of

MOST_WEIGHTS = 2**19  # of means: 2 MB in a file
NO_WEIGHT = -200.0  # as a logarithm: its exponential is 0 in every type
ROUNDING = 1e-5  # of the sum of weights


@torch.no_grad()
def weighted_means(builder: GraphBuilder, node: fx.Node) -> int | None:
    """Add means with constant weights, as an attention whose scores are only a bias: the logarithms of the weights."""
    source_shape, shape = builder.shape(node), builder.traced.shapes[node.name]
    if len(source_shape) != 4 or len(shape) != 4 or shape[1] != source_shape[1]:
        return None
    before, after = prod(source_shape[2:]), prod(shape[2:])
    if before * after > MOST_WEIGHTS:
        return None
    images = torch.eye(before, dtype=torch.float64).reshape(before, 1, *source_shape[2:])  # one for each pixel
    weights_PQ = _result(builder, node, images).reshape(before, after).T
    sums_P = weights_PQ.sum(dim=1)
    if bool((weights_PQ < 0).any()) or not torch.allclose(sums_P, torch.ones_like(sums_P), atol=ROUNDING):
        return None
    source, channels = builder.source(node), shape[1]
    first = torch.arange(channels)[:, None] * before + torch.zeros(after, dtype=torch.int64)
    queries = builder.copied(View(source, first), first.shape, (channels, shape[2], shape[3]))
    operation = Attention(
        op="attention",
        inputs=(queries, source, source),
        heads=1,
        dims=(1, channels),
        first=(0, 0, 0),
        step=(1, 1, channels),
        scale=0.0,
        pairs=(after, before),
    )
    bias_PQ = weights_PQ.log().clamp(min=NO_WEIGHT).numpy()
    return builder.add(operation, {"bias": bias_PQ[None, None].repeat(len(builder.domains), axis=0)})


def _result(builder: GraphBuilder, node: fx.Node, images: Tensor) -> Tensor:
    """Call what a node calls with other images."""
    name = builder.first(node)
    args, kwargs = fx.node.map_arg(builder.arguments(node, 0), lambda read: images if read.name == name else read)
    result: Tensor = called(builder.traced, node)(*args, **kwargs)
    return result


def pad(builder: GraphBuilder, node: fx.Node) -> View | None:
    """Append or prepend zeros along any axes of an image."""
    settings = builder.settings(node, ("pad", "mode", "value"))
    return _pad(builder, node, settings.get("pad", ()), settings.get("mode", "constant"), settings.get("value"))


def pad_layer(builder: GraphBuilder, node: fx.Node) -> View | None:
    """Add a layer that pads with zeros."""
    settings = builder.settings(node, ("padding", "value"))
    return _pad(builder, node, settings["padding"], "constant", settings["value"])


def _pad(builder: GraphBuilder, node: fx.Node, amounts: Sequence[int], mode: str, value: float | None) -> View | None:
    """Pad, where amounts are those before and after the last axis, then of the axis before it, and so on."""
    view, shape = builder.view(builder.first(node)), list(builder.shape(node))
    pairs = list(zip(amounts[::2], amounts[1::2], strict=True))
    if not any(amounts):
        return view
    if mode != "constant" or value not in (None, 0) or min(amounts) < 0 or len(shape) != 4 or len(pairs) > 3:
        return None
    channels = _channel_axis(builder, view, shape)
    for axis, (before, after) in zip((3, 2, 1), pairs, strict=False):
        if before or after:
            view = _pad_axis(builder, view, shape, axis, (before, after))
            shape[axis] += before + after
    positions = view.over(shape)
    if pixels_of(positions, channels, builder.value_shapes[view.value]) is not None:
        return view
    moved = positions.movedim(channels, 1)
    value_ = builder.copied(View(view.value, moved), moved.shape, (moved.shape[1], moved.shape[2], moved.shape[3]))
    return View(value_, in_order(torch.arange(moved.numel()).reshape(moved.shape).movedim(1, channels)))


def _channel_axis(builder: GraphBuilder, view: View, shape: Sequence[int]) -> int:
    """Return the last axis along which the channel of a view's value changes, or else the usual one."""
    pixels = prod(builder.value_shapes[view.value][1:])
    channels = view.over(shape) // pixels
    varies = [axis for axis in (1, 2, 3) if bool((channels != channels.narrow(axis, 0, 1)).any())]
    return varies[-1] if varies else 1


def _pad_axis(builder: GraphBuilder, view: View, shape: Sequence[int], axis: int, amounts: tuple[int, int]) -> View:
    """Pad one axis: its places become channels, after which a graph can append zeros."""
    before, after = amounts
    rows = view.over(shape).movedim(axis, 0)
    length, _, height, width = rows.shape
    source = builder.copied(View(view.value, rows), rows.shape, (length, height, width))
    result = builder.add(AppendZeros(op="append_zeros", inputs=(source,), count=max(after, 1)))
    if before:
        zeros = torch.arange(length * height * width, (length + 1) * height * width).repeat(before)
        above = builder.copied(View(result, zeros), zeros.shape, (before, height, width))
        result = builder.add(Cat(op="cat", inputs=(above, result if after else source)))
    numbers = torch.arange((before + length + after) * height * width)
    return View(result, in_order(numbers.reshape(-1, 1, height, width).movedim(0, axis)))
