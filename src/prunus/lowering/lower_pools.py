"""Pools and means as operations of a graph."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import fx, nn

from prunus.graph.operations import Mean, Pool
from prunus.lowering.lowering import Lowering, Step, arguments

WINDOW = ("kernel_size", "stride", "padding")
MAX_POOL = (*WINDOW, "dilation", "ceil_mode", "return_indices")
MEAN_POOL = (*WINDOW, "ceil_mode", "count_include_pad", "divisor_override")


def _settings(lowering: Lowering, node: fx.Node, names: tuple[str, ...]) -> dict[str, Any]:
    """Give the settings of a layer or of a call by name."""
    layer = lowering.traced.layer(node)
    return arguments(node, names) if layer is None else {name: getattr(layer, name) for name in names}


def _max(lowering: Lowering, node: fx.Node) -> int | None:
    given = _settings(lowering, node, MAX_POOL)
    if _pair(given.get("dilation", 1)) != (1, 1) or given.get("return_indices"):
        return None
    return _window(lowering, node, "max", given)


def _mean_of_windows(lowering: Lowering, node: fx.Node) -> int | None:
    given = _settings(lowering, node, MEAN_POOL)
    return None if given.get("divisor_override") is not None else _window(lowering, node, "mean", given)


def _window(lowering: Lowering, node: fx.Node, kind: str, given: dict[str, Any]) -> int | None:
    kernel, padding = _pair(given["kernel_size"]), _pair(given.get("padding", 0))
    operation = Pool(
        op="pool",
        inputs=(lowering.source(node),),
        kind="max" if kind == "max" else "mean",
        kernel=kernel,
        stride=_pair(given.get("stride") or kernel),
        pads=(*padding, *padding),
        ceil=bool(given.get("ceil_mode", False)),
        count_pads=kind == "mean" and any(padding) and bool(given.get("count_include_pad", True)),
    )
    return lowering.add(operation) if len(lowering.shape(node)) == 4 else None


def _adaptive(lowering: Lowering, node: fx.Node, kind: str) -> int | None:
    """Lower a pool that is told how many pixels to make, where all its windows are equal."""
    sides = lowering.shape(node)[2:]
    wanted = _pair(_settings(lowering, node, ("output_size",))["output_size"])
    made = tuple(side if each is None else each for side, each in zip(sides, wanted, strict=True))
    if len(sides) != 2 or any(side % each for side, each in zip(sides, made, strict=True)):
        return None
    if made == (1, 1) and kind == "mean":
        return lowering.add(Mean(op="mean", inputs=(lowering.source(node),)))
    return _window(lowering, node, kind, {"kernel_size": (sides[0] // made[0], sides[1] // made[1])})


def _mean(lowering: Lowering, node: fx.Node) -> int | None:
    dims = arguments(node, ("dim",)).get("dim")
    over_pixels = isinstance(dims, (tuple, list)) and sorted(int(dim) % 4 for dim in dims) == [2, 3]
    if not over_pixels or len(lowering.shape(node)) != 4:
        return None
    return lowering.add(Mean(op="mean", inputs=(lowering.source(node),)))


def _pair(value: Any) -> tuple[Any, Any]:  # noqa: ANN401  # an int or two of them
    return (value[0], value[-1]) if isinstance(value, (tuple, list)) else (value, value)


POOL_LAYERS: dict[type[nn.Module], Step] = {
    nn.MaxPool2d: _max,
    nn.AvgPool2d: _mean_of_windows,
    nn.AdaptiveAvgPool2d: lambda lowering, node: _adaptive(lowering, node, "mean"),
    nn.AdaptiveMaxPool2d: lambda lowering, node: _adaptive(lowering, node, "max"),
}
POOL_CALLS: dict[Callable[..., Any] | str, Step] = {
    F.max_pool2d: _max,
    F.avg_pool2d: _mean_of_windows,
    F.adaptive_avg_pool2d: lambda lowering, node: _adaptive(lowering, node, "mean"),
    torch.mean: _mean,
    "mean": _mean,
}
