"""Pools and means as operations of a graph."""

from math import prod
from typing import Any, Literal

import numpy as np
from torch import fx

from prunus.graph.operations import Mean, Pool
from prunus.lowering.builder import GraphBuilder, Rule, Settings
from prunus.lowering.rules.resizing import weighted_means

Kind = Literal["max", "mean"]
WINDOW = ("kernel_size", "stride", "padding")


def max_pool(builder: GraphBuilder, node: fx.Node) -> int | None:
    """Add a maximum over windows."""
    settings = builder.settings(node, (*WINDOW, "dilation", "ceil_mode", "return_indices"))
    if _pair(settings.get("dilation", 1)) != (1, 1) or settings.get("return_indices"):
        return None
    return _pool(builder, node, "max", settings)


def mean_pool(builder: GraphBuilder, node: fx.Node) -> int | None:
    """Add a mean over windows."""
    settings = builder.settings(node, (*WINDOW, "ceil_mode", "count_include_pad", "divisor_override"))
    return None if settings.get("divisor_override") is not None else _pool(builder, node, "mean", settings)


def _pool(builder: GraphBuilder, node: fx.Node, kind: Kind, settings: Settings) -> int | None:
    kernel, padding = _pair(settings["kernel_size"]), _pair(settings.get("padding", 0))
    operation = Pool(
        op="pool",
        inputs=(builder.source(node),),
        kind=kind,
        kernel=kernel,
        stride=_pair(settings.get("stride") or kernel),
        pads=(*padding, *padding),
        ceil=bool(settings.get("ceil_mode", False)),
        count_pads=kind == "mean" and any(padding) and bool(settings.get("count_include_pad", True)),
    )
    return builder.add(operation) if len(builder.shape(node)) == 4 else None


def adaptive_pool(kind: Kind) -> Rule:
    """Return the rule of a pool that is told how many pixels to make; windows of a maximum must be equal."""

    def add(builder: GraphBuilder, node: fx.Node) -> int | None:
        shape = builder.shape(node)
        if len(shape) != 4:
            return None
        height, width = shape[2:]
        rows, columns = _pair(builder.settings(node, ("output_size",))["output_size"])
        rows, columns = rows or height, columns or width
        if height % rows or width % columns:
            return weighted_means(builder, node) if kind == "mean" else None
        if (rows, columns) == (1, 1) and kind == "mean":
            return _mean(builder, node)
        return _pool(builder, node, kind, {"kernel_size": (height // rows, width // columns)})

    return add


def mean(builder: GraphBuilder, node: fx.Node) -> int | None:
    """Add a mean over all pixels: all axes but the first, whose length is 1, and that of the channels.

    A mean over the rows or the columns of an image is a pool.
    """
    shape, reduced = builder.shape(node), _reduced(builder, node)
    rest = [axis for axis in range(1, len(shape)) if axis not in reduced]
    if len(shape) == 4 and reduced in ({2}, {3}):
        height, width = (shape[axis] if axis in reduced else 1 for axis in (2, 3))
        return _pool(builder, node, "mean", {"kernel_size": (height, width)})
    if len(rest) != 1 or not reduced or 0 in reduced:
        return None
    value, _ = builder.pixelwise(builder.first(node), rest[0])
    return builder.add(Mean(op="mean", inputs=(value,)))


def total(builder: GraphBuilder, node: fx.Node) -> int | None:
    """Add a sum over all pixels, or over the rows or the columns of an image: a mean times their number."""
    value = mean(builder, node)
    if value is None:
        return None
    count = prod(builder.shape(node)[axis] for axis in _reduced(builder, node))
    factors = np.full((len(builder.domains), builder.value_shapes[value][0]), float(count))
    return builder.activate(value, ("none", 0.0), {"scale": factors})


def _reduced(builder: GraphBuilder, node: fx.Node) -> set[int]:
    """Return the axes that a node reduces."""
    dims, rank = builder.settings(node, ("dim",)).get("dim"), len(builder.shape(node))
    return {int(dim) % rank for dim in (dims if isinstance(dims, (tuple, list)) else [dims] if dims else [])}


def _mean(builder: GraphBuilder, node: fx.Node) -> int:
    return builder.add(Mean(op="mean", inputs=(builder.source(node),)))


def _pair(setting: Any) -> tuple[Any, Any]:  # noqa: ANN401  # an int or two of them
    return (setting[0], setting[-1]) if isinstance(setting, (tuple, list)) else (setting, setting)
