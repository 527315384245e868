"""The operations of a network's graph, as plain data.

A value is what an operation computes from one image: channels x height x width. Value 0 is the image, operation k
(counted from 0) computes value k + 1, and the last value, flattened, holds the features that a domain's classifier
reads. Numbers such as weights are not stored here: an operation names the tensors it needs by role (`tensors`), and
a network or a model file holds them.

To add an operation, declare its class here and add it to `OPERATIONS`. Then add a row to five tables: `RULES` of
`lowering/table.py`, `TORCH` of `torch_graph/operations.py`, `NUMPY` of `graph/compute.py`, `STEPS` of
`runtime/native_engine.py` and `NODES` of `onnx/nodes.py`. In 8-bit files it then computes with floats, until it has a
row in `RULES` of `bundle/eight_bits/rules.py` and in `INTEGER` of `integers/program.py`.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Annotated, ClassVar, Literal, get_args

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, SerializeAsAny, ValidationError
from typing_extensions import override

from prunus.arrays import Doubles
from prunus.errors import BundleError
from prunus.graph.limits import MAX_LAYER_NAME, MAX_NUMBERS, MAX_OPERATIONS, MAX_SIDE
from prunus.graph.windows import Sides, pixels_per_window, window_count, window_count_ceil

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
# channels of the input, from a convolution's kernels, one input after the other, or followed by channels of zeros
ChannelRule = Literal["channelwise", "mixed", "convolved", "joined", "appended"]


class Operation(BaseModel):
    """One operation of a graph; frozen, and a key that it does not know means another format."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)
    channel_rule: ClassVar[ChannelRule] = "mixed"  # always right: no channel is removed
    absorbs_zero: ClassVar[bool] = False  # a channel that is zero in one input is zero in the result

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


class Conv(Activated):
    """activation(scale * convolution(x) + bias + residual); a second input is the residual.

    `channels` are the outputs and the inputs of one group, `was` the same before pruning, if different. `ones` are
    kernels over one more input that is 1 inside the image and 0 in the padding: they replace removed constant channels.
    """

    channel_rule: ClassVar[ChannelRule] = "convolved"

    op: Literal["conv"]
    inputs: Annotated[tuple[Value, ...], Field(min_length=1, max_length=2)]
    layer: Annotated[str, Field(min_length=1, max_length=MAX_LAYER_NAME)]
    channels: Pair
    was: Pair | None = None
    kernel: Pair
    stride: Pair = (1, 1)
    pads: Pads = (0, 0, 0, 0)
    dilation: Pair = (1, 1)
    groups: Side = 1

    @override
    def tensors(self, channels: int) -> dict[str, tuple[int, ...]]:
        out = self.channels[0]
        return {"scale": (out,), "bias": (out,), "ones": (out, *self.kernel)}

    @override
    def shape(self, inputs: Sequence[Shape]) -> Shape:
        out, in_group = self.channels
        check_pads(inputs[0], self.pads)
        if in_group * self.groups != inputs[0][0] or out % self.groups:
            raise BundleError(
                f"of layer {self.layer!r} has {out} outputs and {self.groups} groups of {in_group} inputs, "
                f"but its input has {inputs[0][0]} channels"
            )
        sides = [
            window_count(
                inputs[0][axis + 1],
                (self.kernel[axis] - 1) * self.dilation[axis] + 1,
                self.stride[axis],
                (self.pads[axis], self.pads[axis + 2]),
            )
            for axis in (0, 1)
        ]
        result = (out, sides[0], sides[1])
        if any(residual != result for residual in inputs[1:]):
            raise BundleError(f"of layer {self.layer!r} makes {result}, but its residual is {inputs[1]}")
        return result

    @override
    def on_uniform_images(self) -> Operation:
        """Return a convolution of one pixel, whose weights are the sums of the kernels."""
        update = {"kernel": (1, 1), "stride": (1, 1), "pads": (0, 0, 0, 0), "dilation": (1, 1)}
        return self.model_copy(update=update)


class Affine(Activated):
    """activation(scale * x + bias), channel by channel."""

    channel_rule: ClassVar[ChannelRule] = "channelwise"

    op: Literal["affine"]
    inputs: tuple[Value]

    @override
    def tensors(self, channels: int) -> dict[str, tuple[int, ...]]:
        return {"scale": (channels,), "bias": (channels,)}


class LayerNorm(Operation):
    """scale * (x - mean) / sqrt(variance + eps) + bias, with mean and variance over the channels of a pixel."""

    op: Literal["layer_norm"]
    inputs: tuple[Value]
    eps: Annotated[float, Field(ge=0)]

    @override
    def tensors(self, channels: int) -> dict[str, tuple[int, ...]]:
        return {"scale": (channels,), "bias": (channels,)}


class Add(Activated):
    """activation(x + y)."""

    channel_rule: ClassVar[ChannelRule] = "channelwise"

    op: Literal["add"]
    inputs: tuple[Value, Value]


class Mul(Activated):
    """activation(x * y), where y may have a single pixel for all of x's."""

    channel_rule: ClassVar[ChannelRule] = "channelwise"
    absorbs_zero: ClassVar[bool] = True

    op: Literal["mul"]
    inputs: tuple[Value, Value]

    @override
    def shape(self, inputs: Sequence[Shape]) -> Shape:
        return super().shape(inputs[:1] if inputs[1] == (inputs[0][0], 1, 1) else inputs)


class Cat(Operation):
    """The channels of all inputs, one after the other."""

    channel_rule: ClassVar[ChannelRule] = "joined"

    op: Literal["cat"]
    inputs: Annotated[tuple[Value, ...], Field(min_length=1)]

    @override
    def shape(self, inputs: Sequence[Shape]) -> Shape:
        _, height, width = inputs[0]
        if any(shape[1:] != (height, width) for shape in inputs):
            raise BundleError(f"joins images of different sizes: {list(inputs[:9])}")
        return sum(channels for channels, _, _ in inputs), height, width


class AppendZeros(Operation):
    """The channels of the input, then `count` channels of zeros."""

    channel_rule: ClassVar[ChannelRule] = "appended"

    op: Literal["append_zeros"]
    inputs: tuple[Value]
    count: Amount

    @override
    def shape(self, inputs: Sequence[Shape]) -> Shape:
        channels, height, width = inputs[0]
        return channels + self.count, height, width


class Pool(Operation):
    """The maximum or the mean of every window; pads are smaller than the kernel, so every window reads the image.

    With `ceil`, windows may start in the image and end after the bottom and right padding. A mean divides by the pixels
    of the window in the image and, with `count_pads`, in its padding, but never by those after the padding.
    """

    channel_rule: ClassVar[ChannelRule] = "channelwise"

    op: Literal["pool"]
    inputs: tuple[Value]
    kind: Literal["max", "mean"]
    kernel: Pair
    stride: Pair
    pads: Pads = (0, 0, 0, 0)
    ceil: bool = False
    count_pads: bool = False

    @override
    def shape(self, inputs: Sequence[Shape]) -> Shape:
        channels = inputs[0][0]
        check_pads(inputs[0], self.pads)
        outside = any(pad >= self.kernel[side % 2] for side, pad in enumerate(self.pads))
        if outside or channels * prod(self.kernel) > MAX_NUMBERS:
            raise BundleError(f"has impossible windows {self.kernel}")
        count = window_count_ceil if self.ceil else window_count
        rows, columns = (
            count(inputs[0][axis + 1], self.kernel[axis], self.stride[axis], self._margins(axis)) for axis in (0, 1)
        )
        return channels, rows, columns

    def window_pixels(self, source: Sides, sides: Sides) -> Doubles:
        """Count the pixels that the mean of every window divides by."""
        rows, columns = (
            pixels_per_window(
                source[axis],
                sides[axis],
                self.kernel[axis],
                self.stride[axis],
                self._margins(axis),
                self._margins(axis) if self.count_pads else (0, 0),
            )
            for axis in (0, 1)
        )
        return rows[:, None] * columns

    def pads_to_last_window(self, source: Sides, sides: Sides) -> Pads:
        """Return pads that end where the last window ends, which may be before or after the end of the padding."""
        ends = [(sides[axis] - 1) * self.stride[axis] + self.kernel[axis] for axis in (0, 1)]
        below, beside = (max(ends[axis] - source[axis] - self.pads[axis], 0) for axis in (0, 1))
        return self.pads[0], self.pads[1], below, beside

    @override
    def keeps_constants(self) -> bool:
        """Return False for means over zeros in the padding."""
        return not (self.kind == "mean" and self.count_pads and any(self.pads))

    @override
    def on_uniform_images(self) -> Operation:
        """Return the mean: the pool of equal pixels is the pixel."""
        return Mean(op="mean", inputs=self.inputs)

    def _margins(self, axis: int) -> tuple[int, int]:
        return self.pads[axis], self.pads[axis + 2]


class Mean(Operation):
    """The mean over all pixels: one pixel."""

    channel_rule: ClassVar[ChannelRule] = "channelwise"

    op: Literal["mean"]
    inputs: tuple[Value]

    @override
    def shape(self, inputs: Sequence[Shape]) -> Shape:
        return inputs[0][0], 1, 1


def check_pads(source: Shape, pads: Pads) -> None:
    """Refuse pads that would fill the memory."""
    channels, height, width = source
    top, left, bottom, right = pads
    if channels * (height + top + bottom) * (width + left + right) > MAX_NUMBERS:
        raise BundleError(f"has impossible pads {pads}")


def operation_name(kind: type[Operation]) -> str:
    """Return the name of an operation in a graph."""
    return str(get_args(kind.model_fields["op"].annotation)[0])


OPERATIONS: dict[str, type[Operation]] = {
    operation_name(kind): kind for kind in (Conv, Affine, LayerNorm, Add, Mul, Cat, AppendZeros, Pool, Mean)
}


def parse_operation(content: object) -> Operation:
    """Look up an operation by its name and check its fields."""
    if isinstance(content, Operation):
        return content
    name = content.get("op") if isinstance(content, dict) else None
    if not isinstance(name, str) or name not in OPERATIONS:
        raise ValueError(f"unknown operation {str(name)[:100]!r}; known: {', '.join(OPERATIONS)}")
    try:
        return OPERATIONS[name].model_validate(content)
    except ValidationError as error:
        first = error.errors()[0]
        location = ".".join(str(part) for part in first["loc"])
        raise ValueError(f"{name} {location}: {first['msg']}") from None


Graph = tuple[Annotated[SerializeAsAny[Operation], BeforeValidator(parse_operation)], ...]
