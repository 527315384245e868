"""What every operation of a graph has."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, ClassVar, Literal

from pydantic import BaseModel, ConfigDict, Field

from prunus.errors import BundleError
from prunus.graph.limits import MAX_OPERATIONS, MAX_SIDE

Shape = tuple[int, int, int]  # channels, height, width
Side = Annotated[int, Field(ge=1, le=MAX_SIDE)]
Amount = Annotated[int, Field(ge=0, le=MAX_SIDE)]
Value = Annotated[int, Field(ge=0, le=MAX_OPERATIONS)]
Pair = tuple[Side, Side]
Pads = tuple[Amount, Amount, Amount, Amount]  # top, left, bottom, right

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

# how the channels of a result come from those of the inputs: each from the same channel of every input, from all
# channels of the input, from a convolution's kernels, one input after the other, followed by channels of zeros, from
# the heads of an attention, or from the same channel with its pixels in another order
ChannelRule = Literal["channelwise", "mixed", "convolved", "joined", "appended", "attended", "moved"]


class Operation(BaseModel):
    """One operation of a graph; frozen, and a key that it does not know means another format."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)
    channel_rule: ClassVar[ChannelRule] = "mixed"  # always right: no channel is removed
    absorbs_zero: ClassVar[bool] = False  # a channel that is zero in one input is zero in the result
    is_pixelwise: ClassVar[bool] = False  # a pixel of the result needs only the same pixel of every input

    inputs: tuple[Value, ...]
    op: str

    def tensors(self, channels: int) -> dict[str, tuple[int, ...]]:
        """Return the shapes of the tensors it may have, by role; `channels` are those of its first input.

        A missing scale is 1; any other missing tensor is 0.
        """
        return {}

    def shape(self, inputs: Sequence[Shape]) -> Shape:
        """Return the shape of the result, or refuse inputs that do not fit."""
        if any(shape != inputs[0] for shape in inputs):
            raise BundleError(f"joins values of different shapes: {list(inputs)}")
        return inputs[0]

    def rule(self, inputs: Sequence[Shape]) -> ChannelRule:
        """Return how channels flow through it from inputs of these shapes."""
        return self.channel_rule

    def pixelwise_inputs(self) -> tuple[int, ...]:
        """Return the positions of the inputs of which a pixel of the result needs only the same pixel."""
        return tuple(range(len(self.inputs))) if self.is_pixelwise else ()

    def macs(self, inputs: Sequence[Shape]) -> int:
        """Count the multiply-accumulates of products of two values; those of kernels are counted by layer."""
        return 0

    def removed_macs(self, inputs: Sequence[Shape]) -> int:
        """Count those that pruning has removed."""
        return 0

    def keeps_constants(self) -> bool:
        """Return whether channels that are the same at every pixel stay so; if not, only channels of zeros do."""
        return True

    def on_uniform_images(self) -> Operation:
        """Return the operation that does the same to channels of one pixel."""
        return self


class Activated(Operation):
    """An operation that ends in an activation; `slope` is leaky_relu's slope below zero, and elu's alpha."""

    activation: ActivationName = "none"
    slope: float = 0.0
