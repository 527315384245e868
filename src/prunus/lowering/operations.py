"""What an operation does to channels: a table, and for everything that is not in it "opaque"."""

from __future__ import annotations

import operator
from collections.abc import Callable
from enum import Enum, auto
from typing import Any

import torch
import torch.nn.functional as F
from torch import fx, nn
from torch.nn.modules.batchnorm import _BatchNorm
from torch.nn.modules.dropout import _DropoutNd

from prunus.lowering.trace import TracedNetwork


class Kind(Enum):
    """How the channels of a result come from those of the inputs."""

    CONV = auto()  # a convolution
    CHANNELWISE = auto()  # every channel for itself, pixel by pixel: norms by statistics, activations
    SPATIAL = auto()  # every channel for itself, and a constant stays as it is: pooling
    ADD = auto()
    MUL = auto()
    CAT = auto()  # one after the other
    PAD = auto()  # channels of zeros appended
    FLATTEN = auto()  # pixels become channels
    SIZE = auto()  # how many images, rows or columns: nothing about channels
    OUTPUT = auto()
    OPAQUE = auto()  # anything may depend on anything


LAYERS: dict[type[nn.Module], Kind] = {
    nn.Conv2d: Kind.CONV,
    _BatchNorm: Kind.CHANNELWISE,
    nn.Identity: Kind.CHANNELWISE,
    _DropoutNd: Kind.CHANNELWISE,
    nn.ReLU: Kind.CHANNELWISE,
    nn.ReLU6: Kind.CHANNELWISE,
    nn.LeakyReLU: Kind.CHANNELWISE,
    nn.ELU: Kind.CHANNELWISE,
    nn.SiLU: Kind.CHANNELWISE,
    nn.GELU: Kind.CHANNELWISE,
    nn.Mish: Kind.CHANNELWISE,
    nn.Hardswish: Kind.CHANNELWISE,
    nn.Hardsigmoid: Kind.CHANNELWISE,
    nn.Hardtanh: Kind.CHANNELWISE,
    nn.Sigmoid: Kind.CHANNELWISE,
    nn.Tanh: Kind.CHANNELWISE,
    nn.MaxPool2d: Kind.SPATIAL,
    nn.AdaptiveAvgPool2d: Kind.SPATIAL,
    nn.AdaptiveMaxPool2d: Kind.SPATIAL,
    nn.AvgPool2d: Kind.SPATIAL,
    nn.Flatten: Kind.FLATTEN,
}
FUNCTIONS: dict[Callable[..., Any] | str, Kind] = {
    operator.add: Kind.ADD,
    operator.iadd: Kind.ADD,
    torch.add: Kind.ADD,
    "add": Kind.ADD,
    "add_": Kind.ADD,
    operator.mul: Kind.MUL,
    operator.imul: Kind.MUL,
    torch.mul: Kind.MUL,
    "mul": Kind.MUL,
    "mul_": Kind.MUL,
    torch.cat: Kind.CAT,
    torch.concat: Kind.CAT,
    F.pad: Kind.PAD,
    torch.flatten: Kind.FLATTEN,
    "flatten": Kind.FLATTEN,
    "view": Kind.FLATTEN,
    "reshape": Kind.FLATTEN,
    "size": Kind.SIZE,
    F.avg_pool2d: Kind.SPATIAL,
    F.max_pool2d: Kind.SPATIAL,
    F.adaptive_avg_pool2d: Kind.SPATIAL,
    torch.mean: Kind.SPATIAL,
    "mean": Kind.SPATIAL,
    "contiguous": Kind.SPATIAL,
    **dict.fromkeys(
        (F.relu, F.relu6, F.silu, F.gelu, F.hardswish, F.hardsigmoid, F.hardtanh, F.leaky_relu, F.dropout),
        Kind.CHANNELWISE,
    ),
    **dict.fromkeys((torch.relu, torch.sigmoid, torch.tanh), Kind.CHANNELWISE),
    **dict.fromkeys(("relu", "relu_", "sigmoid", "sigmoid_", "tanh"), Kind.CHANNELWISE),
}


def classify(node: fx.Node, traced: TracedNetwork) -> Kind:
    """Look up what a node does to channels, given its arguments."""
    if node.op == "output":
        return Kind.OUTPUT
    layer = traced.layer(node)
    if layer is not None:
        kind = next((kind for type_, kind in LAYERS.items() if isinstance(layer, type_)), Kind.OPAQUE)
    else:
        is_call = node.op in ("call_function", "call_method")
        kind = FUNCTIONS.get(node.target, Kind.OPAQUE) if is_call else Kind.OPAQUE
    if kind in (Kind.ADD, Kind.MUL) and _has_a_number(node):
        return Kind.CHANNELWISE
    holds = CHECKS.get(kind)
    return kind if holds is None or holds(node, traced) else Kind.OPAQUE


def _keeps_constants(node: fx.Node, traced: TracedNetwork) -> bool:
    """Refuse averages over borders of zeros, and means over channels."""
    layer = traced.layer(node)
    if isinstance(layer, nn.AvgPool2d):
        return not any(_pair(layer.padding)) and not layer.ceil_mode and layer.divisor_override is None
    if node.target is F.avg_pool2d:
        keywords = (
            dict(zip(("kernel_size", "stride", "padding", "ceil_mode"), node.args[1:], strict=False)) | node.kwargs
        )
        padded = any(_pair(keywords.get("padding", 0))) or bool(keywords.get("ceil_mode"))
        return not padded and len(node.args) < 6 and keywords.get("divisor_override") is None
    if node.target in (torch.mean, "mean"):
        dims = node.args[1] if len(node.args) > 1 else node.kwargs.get("dim")
        return isinstance(dims, (tuple, list)) and sorted(int(dim) % 4 for dim in dims) == [2, 3]
    return True


def _has_statistics(node: fx.Node, traced: TracedNetwork) -> bool:
    layer = traced.layer(node)
    return not isinstance(layer, _BatchNorm) or layer.running_var is not None


def _combines_two(node: fx.Node, traced: TracedNetwork) -> bool:
    return len(node.args) == 2 and not node.kwargs and all(isinstance(each, fx.Node) for each in node.args)


def _has_a_number(node: fx.Node) -> bool:
    """Tell whether a value meets a number that is the same for all channels."""
    nodes = [each for each in node.args if isinstance(each, fx.Node)]
    numbers = [each for each in node.args if isinstance(each, (int, float))]
    return (len(nodes), len(numbers), len(node.args)) == (1, 1, 2) and not node.kwargs


def _along_channels(node: fx.Node, traced: TracedNetwork) -> bool:
    dim = node.args[1] if len(node.args) > 1 else node.kwargs.get("dim", node.kwargs.get("axis", 0))
    parts = node.args[0] if node.args else node.kwargs.get("tensors")
    return bool(dim == 1) and isinstance(parts, (tuple, list)) and all(isinstance(each, fx.Node) for each in parts)


def _appends_zeros(node: fx.Node, traced: TracedNetwork) -> bool:
    amounts = node.args[1] if len(node.args) > 1 else node.kwargs.get("pad")
    settings = {"mode": node.kwargs.get("mode", "constant"), "value": node.kwargs.get("value") or 0}
    if len(node.args) != 2 or settings != {"mode": "constant", "value": 0} or not isinstance(amounts, (tuple, list)):
        return False
    return len(amounts) == 6 and not any(amounts[:5]) and bool(int(str(amounts[5])) >= 0)


def _flattens_pixels(node: fx.Node, traced: TracedNetwork) -> bool:
    layer = traced.layer(node)
    if isinstance(layer, nn.Flatten):
        return (layer.start_dim, layer.end_dim) == (1, -1)
    if node.target in ("view", "reshape"):  # a width that is told would be wrong when channels go
        return len(node.args) == 3 and str(node.args[2]) == "-1" and len(traced.shapes[node.name]) == 2
    return (*node.args[1:], *node.kwargs.values()) == (1,) and set(node.kwargs) <= {"start_dim"}


def _asks_for_no_channels(node: fx.Node, traced: TracedNetwork) -> bool:
    return len(node.args) == 2 and node.args[1] in (0, 2, 3, -1, -2)


def _pair(value: Any) -> tuple[Any, ...]:  # noqa: ANN401  # an int or a tuple of them
    return tuple(value) if isinstance(value, (tuple, list)) else (value,)


CHECKS: dict[Kind, Callable[[fx.Node, TracedNetwork], bool]] = {
    Kind.CHANNELWISE: _has_statistics,
    Kind.SPATIAL: _keeps_constants,
    Kind.ADD: _combines_two,
    Kind.MUL: _combines_two,
    Kind.CAT: _along_channels,
    Kind.PAD: _appends_zeros,
    Kind.FLATTEN: _flattens_pixels,
    Kind.SIZE: _asks_for_no_channels,
}
