"""The operations of a network's graph, as plain data.

A value is what an operation makes of one image: channels x height x width. Value 0 is the image; operation k (from 0)
makes value k + 1; the last value, flattened, is the features that a domain's classifier sees. Numbers such as weights
are not here: an operation says which it needs (`tensors`), by role, and a file or a bundle holds them.
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

from prunus.graph.limits import MAX_LAYER_NAME, MAX_OPERATIONS, MAX_SIDE

Side = Annotated[int, Field(ge=1, le=MAX_SIDE)]
Amount = Annotated[int, Field(ge=0, le=MAX_SIDE)]
Value = Annotated[int, Field(ge=0, le=MAX_OPERATIONS)]
Pair = tuple[Side, Side]
Pads = tuple[Amount, Amount, Amount, Amount]

ActivationName = Literal[
    "none",
    "relu",
    "relu6",
    "leaky_relu",
    "elu",
    "silu",
    "gelu",
    "gelu_tanh",
    "mish",
    "hard_swish",
    "hard_sigmoid",
    "sigmoid",
    "tanh",
]


class _Operation(BaseModel):
    """Frozen; an unknown key means another format."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    inputs: tuple[Value, ...]

    def tensors(self, channels: int) -> dict[str, tuple[int, ...]]:
        """Give the shapes of the tensors it may have, by role; `channels` are those of its (first) input."""
        return {}


class _Activated(_Operation):
    """Ends in an activation; `slope` is that of leaky_relu below zero, and elu's alpha."""

    activation: ActivationName = "none"
    slope: float = 0.0


class Conv(_Activated):
    """activation(scale * convolution(x) + bias + residual); a second input is the residual.

    `channels` are the outputs and the inputs of one group, `was` the same before pruning, if other. `ones` are kernels
    over one more input that is 1 inside the image and 0 in the padding: what is left of removed constant channels.
    """

    op: Literal["conv"]
    inputs: Annotated[tuple[Value, ...], Field(min_length=1, max_length=2)]
    layer: Annotated[str, Field(min_length=1, max_length=MAX_LAYER_NAME)]
    channels: Pair
    was: Pair | None = None
    kernel: Pair
    stride: Pair = (1, 1)
    pads: Pads = (0, 0, 0, 0)  # top, left, bottom, right
    dilation: Pair = (1, 1)
    groups: Side = 1

    def tensors(self, channels: int) -> dict[str, tuple[int, ...]]:
        """Scale and bias are 1 and 0 where they are missing, ones are 0."""
        out = self.channels[0]
        return {"scale": (out,), "bias": (out,), "ones": (out, *self.kernel)}


class Affine(_Activated):
    """activation(scale * x + bias), channel by channel."""

    op: Literal["affine"]
    inputs: tuple[Value]

    def tensors(self, channels: int) -> dict[str, tuple[int, ...]]:
        """Scale and bias are 1 and 0 where they are missing."""
        return {"scale": (channels,), "bias": (channels,)}


class LayerNorm(_Operation):
    """scale * (x - mean) / sqrt(variance + eps) + bias, where mean and variance go over the channels of a pixel."""

    op: Literal["layer_norm"]
    inputs: tuple[Value]
    eps: Annotated[float, Field(ge=0)]

    def tensors(self, channels: int) -> dict[str, tuple[int, ...]]:
        """Scale and bias are 1 and 0 where they are missing."""
        return {"scale": (channels,), "bias": (channels,)}


class Add(_Activated):
    """activation(x + y)."""

    op: Literal["add"]
    inputs: tuple[Value, Value]


class Mul(_Activated):
    """activation(x * y), where y may have one pixel only, for all of x's."""

    op: Literal["mul"]
    inputs: tuple[Value, Value]


class Cat(_Operation):
    """The channels of all inputs, one after the other."""

    op: Literal["cat"]
    inputs: Annotated[tuple[Value, ...], Field(min_length=1)]


class AppendZeros(_Operation):
    """The channels of the input, then `count` channels of zeros."""

    op: Literal["append_zeros"]
    inputs: tuple[Value]
    count: Amount


class Pool(_Operation):
    """The largest or the mean of every window; pads are smaller than the kernel, so that all see the image.

    `ceil` lets windows begin in the image and end behind the bottom and right padding. A mean divides by the pixels of
    the window, with `count_pads` those of the padding (never those behind it) included.
    """

    op: Literal["pool"]
    inputs: tuple[Value]
    kind: Literal["max", "mean"]
    kernel: Pair
    stride: Pair
    pads: Pads = (0, 0, 0, 0)
    ceil: bool = False
    count_pads: bool = False


class Mean(_Operation):
    """The mean over all pixels: one pixel."""

    op: Literal["mean"]
    inputs: tuple[Value]


Operation = Annotated[
    Conv | Affine | LayerNorm | Add | Mul | Cat | AppendZeros | Pool | Mean,
    Field(discriminator="op"),
]
Graph = tuple[Operation, ...]
