"""The operations of a graph as ONNX nodes: plain data that does not need the onnx package.

A `TensorSource` names the tensors, which are stored in the model or selected by the domain's number when the model
runs. Scales are multiplied into weights by a separate node. Runtimes compute it once, when they load a model, and
several models can share one copy of the weights.

A model computes with float32 or float16. In a float16 model weights are prepared in float32, because ONNX Runtime
multiplies no float16 numbers on x86 and so could not do it once, and the classifier computes in float32.
"""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from prunus.graph.operations import (
    ActivationName,
    Add,
    Affine,
    AppendZeros,
    Conv,
    Graph,
    LayerNorm,
    Mul,
    Operation,
    Pool,
    Shape,
)
from prunus.onnx.graph import Attribute, OnnxGraph, OnnxNode
from prunus.onnx.tokens import TOKEN_NODES
from prunus.onnx.values import Values
from prunus.onnx.writer import TensorSource, Writer


def write_graph(onnx: OnnxGraph, graph: Graph, shapes: Sequence[Shape], tensors: TensorSource, values: Values) -> None:
    """Add a whole network, from `images` to `logits`."""
    for number, operation in enumerate(graph):
        writer = _Writer(onnx, tensors, values, number, shapes[operation.inputs[0]], shapes[number + 1])
        inputs = values.inputs(number, operation)
        values.add(number, operation, NODES[operation.op](writer, values.plain(number, operation), inputs))
    head = (values.features(), tensors.head("weight"), tensors.head("bias"))
    onnx.nodes.append(OnnxNode("Gemm", head, "logits", {"transB": 1}))


class _Writer(Writer):
    """Writes one operation on images."""

    def convolve(self, conv: Conv, inputs: Sequence[str]) -> str:
        settings: dict[str, Attribute] = {
            "kernel_shape": conv.kernel,
            "strides": conv.stride,
            "pads": conv.pads,
            "dilations": conv.dilation,
        }
        bias = self.tensors.get(self.number, "bias")
        weight = self._kernels("weight", None)
        assert weight is not None
        names = (inputs[0], self._real(weight), *([bias] if bias else []))
        result = self.onnx.node("Conv", *names, group=conv.groups, **settings)
        ones = self._kernels("ones", (conv.channels[0], 1, *conv.kernel))
        if ones:
            one = self.onnx.number(1.0, np.float32)
            plane = self.onnx.node("Expand", one, self.onnx.integers(1, 1, *self.source[1:]))
            constant = self.onnx.node("Conv", plane, ones, group=1, **settings)
            result = self.onnx.node("Add", result, self._real(constant))
        if len(inputs) == 2:
            result = self.onnx.node("Add", result, inputs[1])
        return self.activate(conv, result)

    def _kernels(self, role: str, shape: tuple[int, ...] | None) -> str | None:
        kernels = self.tensors.get(self.number, role, shape)
        scale = self.tensors.get(self.number, "scale", (-1, 1, 1, 1)) if kernels else None
        return self.onnx.node("Mul", kernels, scale) if kernels and scale else kernels

    def _real(self, x: str) -> str:
        return x if self.onnx.real == np.float32 else self.onnx.cast(x, self.onnx.real)

    def activate(self, operation: Conv | Affine | Add | Mul, x: str) -> str:
        return ACTIVATIONS[operation.activation](self.onnx, x, operation.slope)

    def scale(self, affine: Affine, inputs: Sequence[str]) -> str:
        result = inputs[0]
        for op, role in (("Mul", "scale"), ("Add", "bias")):
            if name := self.tensors.get(self.number, role, (-1, 1, 1)):
                result = self.onnx.node(op, result, name)
        return self.activate(affine, result)

    def normalize(self, norm: LayerNorm, inputs: Sequence[str]) -> str:
        last = self.onnx.node("Transpose", inputs[0], perm=(0, 2, 3, 1))
        scale = self.tensors.get(self.number, "scale")
        scale = scale or self.onnx.tensor(f"{self.number}.ones", np.ones(self.source[0], dtype=self.onnx.real))
        bias = self.tensors.get(self.number, "bias")
        names = (last, scale, *([bias] if bias else []))
        normed = self.onnx.node("LayerNormalization", *names, axis=-1, epsilon=norm.eps)
        return self.onnx.node("Transpose", normed, perm=(0, 3, 1, 2))

    def add(self, operation: Add, inputs: Sequence[str]) -> str:
        return self.activate(operation, self.onnx.node("Add", *inputs))

    def multiply(self, operation: Mul, inputs: Sequence[str]) -> str:
        return self.activate(operation, self.onnx.node("Mul", *inputs))

    def join(self, operation: Operation, inputs: Sequence[str]) -> str:
        return self.onnx.node("Concat", *inputs, axis=1)

    def append_zeros(self, operation: AppendZeros, inputs: Sequence[str]) -> str:
        return self.onnx.node("Pad", inputs[0], self.onnx.integers(0, 0, 0, 0, 0, operation.count, 0, 0))

    def pool(self, pool: Pool, inputs: Sequence[str]) -> str:
        """Pad to the end of the last window: runtimes disagree about windows that end after the padding."""
        pads = pool.pads_to_last_window(self.source[1:], self.target[1:])
        settings: dict[str, Attribute] = {"kernel_shape": pool.kernel, "strides": pool.stride, "pads": pads}
        if pool.kind == "max":
            return self.onnx.node("MaxPool", inputs[0], **settings)
        result = self.onnx.node("AveragePool", inputs[0], count_include_pad=int(pool.count_pads), **settings)
        if not pool.count_pads or all(needed <= pad for needed, pad in zip(pads, pool.pads, strict=True)):
            return result
        area = pool.kernel[0] * pool.kernel[1]
        correction = (area / pool.window_pixels(self.source[1:], self.target[1:])).astype(self.onnx.real)
        return self.onnx.node("Mul", result, self.onnx.tensor(f"{self.number}.share", correction))

    def mean(self, operation: Operation, inputs: Sequence[str]) -> str:
        return self.onnx.node("GlobalAveragePool", inputs[0])


def _times(op: str) -> Callable[[OnnxGraph, str, float], str]:
    return lambda onnx, x, slope: onnx.node("Mul", x, onnx.node(op, x))


def _plain(op: str, **attributes: Attribute) -> Callable[[OnnxGraph, str, float], str]:
    return lambda onnx, x, slope: onnx.node(op, x, **attributes)


def _sloped(op: str) -> Callable[[OnnxGraph, str, float], str]:
    return lambda onnx, x, slope: onnx.node(op, x, alpha=float(slope))


ACTIVATIONS: dict[ActivationName, Callable[[OnnxGraph, str, float], str]] = {
    "none": lambda onnx, x, slope: x,
    "relu": _plain("Relu"),
    "relu6": lambda onnx, x, slope: onnx.node("Clip", x, onnx.number(0.0), onnx.number(6.0)),
    "leaky_relu": _sloped("LeakyRelu"),
    "elu": _sloped("Elu"),
    "silu": _times("Sigmoid"),
    "gelu": _plain("Gelu"),
    "gelu_tanh": _plain("Gelu", approximate="tanh"),
    "mish": _plain("Mish"),
    "hard_swish": _plain("HardSwish"),
    "hard_sigmoid": _plain("HardSigmoid", alpha=1 / 6, beta=0.5),
    "sigmoid": _plain("Sigmoid"),
    "tanh": _plain("Tanh"),
}
NODES: dict[str, Callable[[_Writer, Any, Sequence[str]], str]] = {
    "conv": _Writer.convolve,
    "affine": _Writer.scale,
    "layer_norm": _Writer.normalize,
    "add": _Writer.add,
    "mul": _Writer.multiply,
    "cat": _Writer.join,
    "append_zeros": _Writer.append_zeros,
    "pool": _Writer.pool,
    "mean": _Writer.mean,
    **TOKEN_NODES,
}
