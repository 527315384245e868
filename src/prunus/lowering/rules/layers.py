"""Convolutions, linear layers and norms as operations of a graph."""

import numpy as np
import torch
from torch import fx, nn
from torch.nn.modules.batchnorm import _BatchNorm

from prunus.graph.limits import MAX_SIDE
from prunus.graph.operations import Conv, LayerNorm, Pads
from prunus.lowering.builder import GraphBuilder
from prunus.lowering.rules.activations import layer_activation
from prunus.lowering.views import View, in_order


def convolution(builder: GraphBuilder, node: fx.Node) -> int | None:
    """Add a convolution; its weights and masks are taken from the network by its name."""
    name, conv, shape = str(node.target), builder.traced.layer(node), builder.shape(node)
    assert isinstance(conv, nn.Conv2d)
    if conv.padding_mode != "zeros" or len(shape) != 4:
        return None
    operation = Conv(
        op="conv",
        inputs=(builder.source(node),),
        layer=name,
        channels=(conv.out_channels, conv.in_channels // conv.groups),
        kernel=(conv.kernel_size[0], conv.kernel_size[1]),
        stride=(conv.stride[0], conv.stride[1]),
        pads=_pads(conv, shape[2:]),
        dilation=(conv.dilation[0], conv.dilation[1]),
        groups=conv.groups,
    )
    return builder.add(operation, {"bias": builder.tensors(f"{name}.bias")})


def _pads(conv: nn.Conv2d, sides: tuple[int, ...]) -> Pads:
    """Return the padding at the top, the left, the bottom and the right."""
    if "Same" in type(conv).__name__:  # timm's, after TensorFlow: as much as makes ceil(side / stride) pixels
        both = [
            max((-(-side // stride) - 1) * stride + (kernel - 1) * dilation + 1 - side, 0)
            for side, stride, kernel, dilation in zip(sides, conv.stride, conv.kernel_size, conv.dilation, strict=True)
        ]
    elif conv.padding == "same":
        both = [(kernel - 1) * dilation for kernel, dilation in zip(conv.kernel_size, conv.dilation, strict=True)]
    else:
        amounts = (0, 0) if isinstance(conv.padding, str) else conv.padding
        both = [2 * amount for amount in amounts]
    top, left = both[0] // 2, both[1] // 2
    return top, left, both[0] - top, both[1] - left


def batch_norm(builder: GraphBuilder, node: fx.Node) -> View | None:
    """Add a batch norm as a scale and a bias, with the activation that timm's norms may hold."""
    name, norm = str(node.target), builder.traced.layer(node)
    assert isinstance(norm, _BatchNorm)
    mean, variance = (builder.tensors(f"{name}.{key}") for key in ("running_mean", "running_var"))
    activation = layer_activation(getattr(norm, "act", nn.Identity()))
    if mean is None or variance is None or activation is None:
        return None
    weight, bias = builder.tensors(f"{name}.weight"), builder.tensors(f"{name}.bias")
    scale = (1.0 if weight is None else weight) / np.sqrt(variance + norm.eps)
    folded = {"scale": scale, "bias": (0.0 if bias is None else bias) - mean * scale}
    return builder.along(builder.first(node), 1, lambda value: builder.activate(value, activation, folded))


def linear(builder: GraphBuilder, node: fx.Node) -> View:
    """Add a linear layer as a convolution of one pixel, whose pixels are all but the last axis."""
    name, layer = str(node.target), builder.traced.layer(node)
    assert isinstance(layer, nn.Linear)

    def make(value: int) -> int:
        channels = (layer.out_features, layer.in_features)
        operation = Conv(op="conv", inputs=(value,), layer=name, channels=channels, kernel=(1, 1))
        return builder.add(operation, {"bias": builder.tensors(f"{name}.bias")})

    return builder.along(builder.first(node), -1, make)


def layer_norm(builder: GraphBuilder, node: fx.Node) -> View | None:
    """Add a layer norm over channels."""
    name, norm, shape = str(node.target), builder.traced.layer(node), builder.shape(node)
    assert isinstance(norm, nn.LayerNorm)
    axis = 1 if type(norm).__name__ == "LayerNorm2d" else -1  # timm's
    if tuple(norm.normalized_shape) != (shape[axis],):
        return None
    tensors = {"scale": builder.tensors(f"{name}.weight"), "bias": builder.tensors(f"{name}.bias")}

    def make(value: int) -> int:
        return builder.add(LayerNorm(op="layer_norm", inputs=(value,), eps=norm.eps), tensors)

    return builder.along(builder.first(node), axis, make)


def group_norm(builder: GraphBuilder, node: fx.Node) -> View | None:
    """Add a group norm as a layer norm whose pixels are the groups, each with all its numbers as channels."""
    name, norm, shape = str(node.target), builder.traced.layer(node), builder.shape(node)
    assert isinstance(norm, nn.GroupNorm)
    activation = layer_activation(getattr(norm, "act", nn.Identity()))
    view = builder.view(builder.first(node))
    columns = view.over(shape).reshape(norm.num_groups, -1).T
    numbers, groups = columns.shape
    if activation is None or numbers > MAX_SIDE:
        return None
    value = builder.copied(View(view.value, columns), columns.shape, (numbers, 1, groups))
    value = builder.add(LayerNorm(op="layer_norm", inputs=(value,), eps=norm.eps))
    back = torch.arange(numbers * groups).reshape(numbers, groups).T.reshape(shape)
    builder.values[node.name] = View(value, in_order(back))
    tensors = {"scale": builder.tensors(f"{name}.weight"), "bias": builder.tensors(f"{name}.bias")}
    present = {role: tensor for role, tensor in tensors.items() if tensor is not None}
    return builder.along(node.name, 1, lambda normed: builder.activate(normed, activation, present))
