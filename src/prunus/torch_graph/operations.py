"""The operations of a graph with torch."""

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from prunus.graph.operations import (
    Activated,
    ActivationName,
    AffineMap,
    Attention,
    Conv,
    JoinPixels,
    LayerNorm,
    Operation,
    Pool,
    Rearrange,
)

Inputs = Sequence[Tensor]
Tensors = Mapping[str, Tensor]  # of one domain, by role; a convolution's weight too

ACTIVATIONS: dict[ActivationName, Callable[[Tensor, float], Tensor]] = {
    "none": lambda x, slope: x,
    "relu": lambda x, slope: F.relu(x),
    "relu6": lambda x, slope: F.relu6(x),
    "leaky_relu": F.leaky_relu,
    "elu": F.elu,
    "silu": lambda x, slope: F.silu(x),
    "gelu": lambda x, slope: F.gelu(x),
    "gelu_tanh": lambda x, slope: F.gelu(x, approximate="tanh"),
    "mish": lambda x, slope: F.mish(x),
    "hard_swish": lambda x, slope: F.hardswish(x),
    "hard_sigmoid": lambda x, slope: F.hardsigmoid(x),
    "sigmoid": lambda x, slope: torch.sigmoid(x),
    "tanh": lambda x, slope: torch.tanh(x),
}


def compute(operation: Operation, inputs: Inputs, tensors: Tensors) -> Tensor:
    """Compute one operation on (images, channels, height, width), its activation included."""
    result = TORCH[operation.op](operation, inputs, tensors)
    if isinstance(operation, Activated):
        result = ACTIVATIONS[operation.activation](result, operation.slope)
    return result


def _convolve(conv: Conv, inputs: Inputs, tensors: Tensors) -> Tensor:
    x, weight = inputs[0], tensors["weight"]
    top, left, bottom, right = conv.pads
    padded = F.pad(x, (left, right, top, bottom))
    result = F.conv2d(padded, weight, None, conv.stride, 0, conv.dilation, conv.groups)
    if "ones" in tensors:
        ones = F.pad(torch.ones_like(x[:1, :1]), (left, right, top, bottom))
        result = result + F.conv2d(ones, tensors["ones"][:, None], None, conv.stride, 0, conv.dilation)
    result = _affine(conv, [result], tensors)
    return result + inputs[1] if len(inputs) == 2 else result


def _affine(operation: Operation, inputs: Inputs, tensors: Tensors) -> Tensor:
    result = inputs[0]
    if "scale" in tensors:
        result = result * tensors["scale"][:, None, None]
    return result + tensors["bias"][:, None, None] if "bias" in tensors else result


def _layer_norm(norm: LayerNorm, inputs: Inputs, tensors: Tensors) -> Tensor:
    channels = inputs[0].shape[1]
    channels_last = inputs[0].movedim(1, -1)
    result = F.layer_norm(channels_last, (channels,), tensors.get("scale"), tensors.get("bias"), norm.eps)
    return result.movedim(-1, 1)


def _pool(pool: Pool, inputs: Inputs, tensors: Tensors) -> Tensor:
    """Pad to the end of the last window, then pool; a mean is divided by the pixels that it counts."""
    x = inputs[0]
    _, height, width = pool.shape([(x.shape[1], x.shape[2], x.shape[3])])
    top, left, bottom, right = pool.pads
    below = max((height - 1) * pool.stride[0] + pool.kernel[0] - x.shape[2] - top - bottom, 0)
    beside = max((width - 1) * pool.stride[1] + pool.kernel[1] - x.shape[3] - left - right, 0)
    around = (left, right + beside, top, bottom + below)
    if pool.kind == "max":
        return F.max_pool2d(F.pad(x, around, value=-math.inf), pool.kernel, pool.stride)
    counted = F.pad(torch.ones_like(x[:1, :1]), (left, right, top, bottom), value=float(pool.count_pads))
    pixels = _sums(F.pad(counted, (0, beside, 0, below)), pool).clamp(min=1)
    return _sums(F.pad(x, around), pool) / pixels


def _sums(x: Tensor, pool: Pool) -> Tensor:
    return F.avg_pool2d(x, pool.kernel, pool.stride, divisor_override=1)


def _affine_map(operation: AffineMap, inputs: Inputs, tensors: Tensors) -> Tensor:
    return inputs[0] * tensors.get("scale", torch.ones(())) + tensors.get("bias", torch.zeros(()))


def _join_pixels(operation: JoinPixels, inputs: Inputs, tensors: Tensors) -> Tensor:
    parts = [x.flatten(2) for x in inputs]
    if operation.count:
        nothing = parts[0].new_zeros(parts[0].shape[1], operation.count)
        parts.insert(0, tensors.get("tokens", nothing).expand(len(parts[0]), -1, -1))
    return torch.cat(parts, 2)[:, :, None]


def _rearrange(operation: Rearrange, inputs: Inputs, tensors: Tensors) -> Tensor:
    flat = inputs[0].flatten(1).contiguous()
    sizes, strides = (len(flat), *operation.sizes), (flat.stride(0), *operation.strides)
    return flat.as_strided(sizes, strides, operation.offset + flat.storage_offset()).reshape(-1, *operation.target)


def _attention(attention: Attention, inputs: Inputs, tensors: Tensors) -> Tensor:
    """Compute all heads and windows at once, by torch's own function."""
    sides = inputs[0].shape[2:]
    dims = (attention.dims[0], attention.dims[0], attention.dims[1])
    windows = None if attention.window is None else torch.from_numpy(attention.windows(sides))
    parts = []
    for x, first, step, dim in zip(inputs, attention.first, attention.step, dims, strict=True):
        channels = first + step * torch.arange(attention.heads)[:, None] + torch.arange(dim)
        pixels = x.flatten(2)[:, channels].movedim(2, -1)  # images, heads, pixels, dim
        parts.append(pixels[:, :, None] if windows is None else pixels[:, :, windows])
    bias = tensors["bias"][:, None] if "bias" in tensors else parts[0].new_zeros(1, 1, 1, 1)
    if windows is not None and attention.apart:
        regions = torch.from_numpy(attention.regions(sides)).to(bias.device)
        bias = bias + attention.apart * (regions[:, :, None] != regions[:, None, :]).to(bias.dtype)
    q, k, v = parts
    means = F.scaled_dot_product_attention(q, k, v, attn_mask=bias, scale=attention.scale)
    flat = means.flatten(2, 3)  # images, heads, pixels in the order of the windows, dim
    if windows is not None:
        flat = flat[:, :, windows.flatten().argsort()]
    return flat.movedim(-1, 2).reshape(len(flat), -1, *sides)


TORCH: dict[str, Callable[[Any, Inputs, Tensors], Tensor]] = {
    "conv": _convolve,
    "affine": _affine,
    "layer_norm": _layer_norm,
    "add": lambda operation, inputs, tensors: inputs[0] + inputs[1],
    "mul": lambda operation, inputs, tensors: inputs[0] * inputs[1],
    "cat": lambda operation, inputs, tensors: torch.cat(list(inputs), 1),
    "append_zeros": lambda operation, inputs, tensors: F.pad(inputs[0], (0, 0, 0, 0, 0, operation.count)),
    "pool": _pool,
    "mean": lambda operation, inputs, tensors: inputs[0].mean((2, 3), keepdim=True),
    "affine_map": _affine_map,
    "join_pixels": _join_pixels,
    "rearrange": _rearrange,
    "attention": _attention,
}
