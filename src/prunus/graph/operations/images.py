"""Operations on images: convolutions, norms, sums, products, joins and pools."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Annotated, ClassVar, Literal

from pydantic import Field
from typing_extensions import override

from prunus.arrays import Doubles
from prunus.errors import BundleError
from prunus.graph.limits import MAX_LAYER_NAME, MAX_NUMBERS
from prunus.graph.operations.base import Activated, Amount, ChannelRule, Operation, Pads, Pair, Shape, Side, Value
from prunus.graph.windows import Sides, pixels_per_window, window_count, window_count_ceil


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
    def pixelwise_inputs(self) -> tuple[int, ...]:
        is_pixelwise = self.kernel == (1, 1) and self.stride == (1, 1) and not any(self.pads)
        return tuple(range(len(self.inputs))) if is_pixelwise else ()

    @override
    def on_uniform_images(self) -> Operation:
        """Return a convolution of one pixel, whose weights are the sums of the kernels."""
        update = {"kernel": (1, 1), "stride": (1, 1), "pads": (0, 0, 0, 0), "dilation": (1, 1)}
        return self.model_copy(update=update)


class Affine(Activated):
    """activation(scale * x + bias), channel by channel."""

    channel_rule: ClassVar[ChannelRule] = "channelwise"
    is_pixelwise: ClassVar[bool] = True

    op: Literal["affine"]
    inputs: tuple[Value]

    @override
    def tensors(self, channels: int) -> dict[str, tuple[int, ...]]:
        return {"scale": (channels,), "bias": (channels,)}


class LayerNorm(Operation):
    """scale * (x - mean) / sqrt(variance + eps) + bias, with mean and variance over the channels of a pixel."""

    is_pixelwise: ClassVar[bool] = True

    op: Literal["layer_norm"]
    inputs: tuple[Value]
    eps: Annotated[float, Field(ge=0)]

    @override
    def tensors(self, channels: int) -> dict[str, tuple[int, ...]]:
        return {"scale": (channels,), "bias": (channels,)}


class Add(Activated):
    """activation(x + y)."""

    channel_rule: ClassVar[ChannelRule] = "channelwise"
    is_pixelwise: ClassVar[bool] = True

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
