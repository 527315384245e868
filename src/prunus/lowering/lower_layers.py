"""Layers as operations of a graph; pools have their own file.

Legend: D = domains, O = output channels.
"""

from __future__ import annotations

import numpy as np
from torch import fx, nn
from torch.nn.modules.batchnorm import _BatchNorm
from torch.nn.modules.dropout import _DropoutNd

from prunus.graph.operations import Conv, LayerNorm
from prunus.lowering.activations import layer_activation
from prunus.lowering.constants import WithConstants
from prunus.lowering.lower_pools import POOL_LAYERS
from prunus.lowering.lowering import Lowering, Step


def lower_layer(lowering: Lowering, node: fx.Node) -> int | None:
    """Look up how a layer is lowered; what is not in the table may be an activation."""
    layer = lowering.traced.layer(node)
    assert layer is not None
    step = next((step for kind, step in LAYERS.items() if isinstance(layer, kind)), _activation)
    return step(lowering, node)


def _convolution(lowering: Lowering, node: fx.Node) -> int | None:
    name, layer = str(node.target), lowering.traced.layer(node)
    conv = layer.conv if isinstance(layer, WithConstants) else layer
    assert isinstance(conv, nn.Conv2d)
    own = f"{name}.conv" if isinstance(layer, WithConstants) else name
    pads = _pads(conv, lowering.shape(node)[2:])
    if conv.padding_mode != "zeros" or len(lowering.shape(node)) != 4:
        return None
    channels, was = (conv.out_channels, conv.in_channels // conv.groups), lowering.was[name]
    operation = Conv(
        op="conv",
        inputs=(lowering.source(node),),
        layer=name,
        channels=channels,
        was=None if was == channels else was,
        kernel=(conv.kernel_size[0], conv.kernel_size[1]),
        stride=(conv.stride[0], conv.stride[1]),
        pads=pads,
        dilation=(conv.dilation[0], conv.dilation[1]),
        groups=conv.groups,
    )
    bias, ones = lowering.tensors(f"{own}.bias"), lowering.tensors(f"{name}.ones_weight")
    found = {"bias": bias, "ones": None if ones is None else ones[:, :, 0]}
    return lowering.add(operation, {role: tensor for role, tensor in found.items() if tensor is not None})


def _pads(conv: nn.Conv2d, sides: tuple[int, ...]) -> tuple[int, int, int, int]:
    """Give the padding of the top, the left, the bottom and the right."""
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


def _batch_norm(lowering: Lowering, node: fx.Node) -> int | None:
    name, norm = str(node.target), lowering.traced.layer(node)
    assert isinstance(norm, _BatchNorm)
    mean, variance = (lowering.tensors(f"{name}.{key}") for key in ("running_mean", "running_var"))
    activation = layer_activation(getattr(norm, "act", nn.Identity()))
    if mean is None or variance is None or activation is None:
        return None
    weight, bias = lowering.tensors(f"{name}.weight"), lowering.tensors(f"{name}.bias")
    scale = (1.0 if weight is None else weight) / np.sqrt(variance + norm.eps)
    folded = {"scale": scale, "bias": (0.0 if bias is None else bias) - mean * scale}
    return lowering.activate(lowering.source(node), activation, folded)


def _layer_norm(lowering: Lowering, node: fx.Node) -> int | None:
    name, norm, shape = str(node.target), lowering.traced.layer(node), lowering.shape(node)
    assert isinstance(norm, nn.LayerNorm)
    over_channels = len(shape) == 2 or type(norm).__name__ == "LayerNorm2d"  # timm's
    if not over_channels or tuple(norm.normalized_shape) != shape[1:2]:
        return None
    scale, bias = lowering.tensors(f"{name}.weight"), lowering.tensors(f"{name}.bias")
    found = {role: tensor for role, tensor in (("scale", scale), ("bias", bias)) if tensor is not None}
    return lowering.add(LayerNorm(op="layer_norm", inputs=(lowering.source(node),), eps=norm.eps), found)


def _activation(lowering: Lowering, node: fx.Node) -> int | None:
    layer = lowering.traced.layer(node)
    activation = layer_activation(layer) if layer else None
    return None if activation is None else lowering.activate(lowering.source(node), activation)


def _vanish(lowering: Lowering, node: fx.Node) -> int | None:
    return lowering.source(node)


LAYERS: dict[type[nn.Module], Step] = {
    nn.Conv2d: _convolution,
    WithConstants: _convolution,
    _BatchNorm: _batch_norm,
    nn.LayerNorm: _layer_norm,
    _DropoutNd: _vanish,
    nn.Flatten: _vanish,
    nn.Identity: _vanish,
    **POOL_LAYERS,
}
