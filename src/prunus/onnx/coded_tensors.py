"""The tensors of an ONNX model of an 8-bit file: codes of weights, scales with the norms in them, integer biases.

Legend: D = domains, O = output channels, K = classes, F = features.
"""

from collections.abc import Mapping, Sequence
from typing import Protocol

import numpy as np

from prunus.arrays import Array, Bytes, Floats
from prunus.bundle.eight_bits.rules import LARGEST_CODE
from prunus.graph.operations import Conv, Operation
from prunus.onnx.coded_network import CodedNetwork, sums_floats
from prunus.onnx.folding import FoldedNorm
from prunus.onnx.graph import OnnxGraph
from prunus.onnx.kernels import WEIGHT_ZERO


class Source(Protocol):
    """The tensors of everything that does not compute with codes."""

    def get(self, number: int, role: str, shape: tuple[int, ...] | None = None) -> str | None:
        """Return the name of a tensor; None if the operation has none of that role."""

    def select(self, title: str, arrays: Sequence[Array]) -> str:
        """Return the name of the domain's array."""

    def mask(self, layer: str, weight: str, zero: Array) -> str:
        """Return the name of a weight without the kernels that the domain does not use."""


class CodedTensors:
    """The tensors of a coded network.

    Args:
        kernels: layer -> the name of its weight: codes, or floats.
    """

    def __init__(self, onnx: OnnxGraph, source: Source, coded: CodedNetwork, kernels: Mapping[str, str]) -> None:
        self._onnx = onnx
        self._source = source
        self._coded = coded
        self._kernels = kernels

    def get(self, number: int, role: str, shape: tuple[int, ...] | None = None) -> str | None:
        """Add a tensor, if the operation has one of that role, and return its name."""
        operation = self._coded.network.graph[number]
        if not isinstance(operation, Conv) or operation.layer not in self._coded.scales:
            return self._source.get(number, role, shape)
        if number not in self._coded.integers or sums_floats(operation):
            return self._numbers(operation.layer) if role == "weight" else self._source.get(number, role, shape)
        norms = self._coded.folded(number, operation)
        title = f"{number}.{operation.layer}"
        if role == "weight":
            return self._decoded_weight(operation.layer, title, norms)
        if role == "bias" and any(norm.biases.any() for norm in norms):
            return self._bias(title, norms, operation.inputs[0])
        return None

    def head(self, role: str) -> str:
        """Add the classifier's weight or bias and return its name."""
        codes_D, scales_D, biases_D = self._coded.heads()
        last = len(self._coded.network.graph)
        if last not in self._coded.codings:
            if role == "bias":
                return self._source.select("head.bias", biases_D)
            codes = self._source.select("head.codes", [_shifted(codes) for codes in codes_D])
            scales = self._source.select("head.scale", [scale[:, None] for scale in scales_D])
            return self._onnx.node("Mul", self._centred(codes), scales)
        norms = self._coded.head_norms()
        if role == "bias":
            return self._bias("head", norms, last)
        shifted = [_shifted(codes * norm.factors[:, None]) for codes, norm in zip(codes_D, norms, strict=True)]
        return self._decoded("head", self._source.select("head.codes", shifted), norms)

    def coding(self, value: int) -> tuple[str, str]:
        """Return the names of a value's scale and zero."""
        codings = self._coded.codings[value]
        scale = self._source.select(f"coding.{value}.scale", list(codings.scales))
        return scale, self._source.select(f"coding.{value}.zero", list(codings.zeros.astype(np.uint8)))

    def limits(self, number: int, operation: Operation) -> tuple[str, str] | None:
        """Return the names of the lowest and highest code of an operation's result; None if every code is allowed."""
        limits = self._coded.limits(number, operation)
        if all(pair == (0, LARGEST_CODE) for pair in limits):
            return None
        lows, highs = (np.array(column, dtype=np.uint8) for column in zip(*limits, strict=True))
        low = self._source.select(f"limit.{number}.low", list(lows))
        return low, self._source.select(f"limit.{number}.high", list(highs))

    def _numbers(self, layer: str) -> str:
        """Return the weight of a layer of codes as floats."""
        scale = self._onnx.tensor(f"scale.{layer}", self._coded.scales[layer].reshape(-1, 1, 1, 1))
        weight = self._onnx.node("Mul", self._centred(self._kernels[layer]), scale)
        return self._source.mask(layer, weight, np.array(0, np.float32))

    def _centred(self, codes: str) -> str:
        """Return codes as floats around 0."""
        return self._onnx.node("Sub", self._onnx.cast(codes, np.float32), self._onnx.number(WEIGHT_ZERO, np.float32))

    def _decoded_weight(self, layer: str, title: str, norms: Sequence[FoldedNorm]) -> str:
        codes = self._kernels[layer]
        if any((norm.factors != 1).any() for norm in norms):
            factors = self._source.select(f"{title}.factor", [norm.factors.reshape(-1, 1, 1, 1) for norm in norms])
            changed = self._onnx.node("Round", self._onnx.node("Mul", self._centred(codes), factors))
            shifted = self._onnx.node("Add", changed, self._onnx.number(WEIGHT_ZERO, np.float32))
            codes = self._onnx.cast(shifted, np.uint8)
        codes = self._source.mask(layer, codes, np.array(WEIGHT_ZERO, np.uint8))
        return self._decoded(title, codes, norms)

    def _decoded(self, title: str, codes: str, norms: Sequence[FoldedNorm]) -> str:
        """Return the numbers that weight codes stand for."""
        count = len(norms[0].scales)
        zeros = self._onnx.tensor(f"zeros_{count}", np.full(count, WEIGHT_ZERO, np.uint8))
        return self._onnx.node("DequantizeLinear", codes, self._scale(title, norms), zeros, axis=0)

    def _bias(self, title: str, norms: Sequence[FoldedNorm], source: int) -> str:
        """Return a bias, which counts products of a weight's and an input's steps."""
        units = self._onnx.node("Mul", self._scale(title, norms), self.coding(source)[0])
        biases = self._source.select(f"{title}.bias", [norm.biases for norm in norms])
        return self._onnx.node("DequantizeLinear", biases, units, axis=0)

    def _scale(self, title: str, norms: Sequence[FoldedNorm]) -> str:
        return self._source.select(f"{title}.scale", [norm.scales for norm in norms])


def _shifted(codes: Floats) -> Bytes:
    return (np.rint(codes) + WEIGHT_ZERO).astype(np.uint8)
