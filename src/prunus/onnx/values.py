"""The values between operations: floats, or in models of 8-bit files codes with nodes that make and read them.

An operation that computes with integers is written with the nodes of its float form, between nodes that decode its
inputs and a node that encodes its result. Runtimes replace such groups by integer operators. Where a convolution adds
its second input, the sum is made of floats: codes between them would be too coarse for small addends.

A convolution that computes with floats must not look like such a group: ONNX Runtime would round its weights to codes.
So what it reads is decoded by arithmetic.
"""

from collections.abc import Collection
from typing import Protocol

import numpy as np

from prunus.bundle.eight_bits.rules import PLAIN
from prunus.graph.operations import Activated, Conv, Operation
from prunus.onnx.graph import OnnxGraph


class Values(Protocol):
    """The values of a graph that is being written."""

    def inputs(self, number: int, operation: Operation) -> list[str]:
        """Return the names of what an operation reads."""

    def plain(self, number: int, operation: Operation) -> Operation:
        """Return an operation without what `add` does for it."""

    def add(self, number: int, operation: Operation, result: str) -> None:
        """Take over the result of an operation."""

    def features(self) -> str:
        """Return the name of the features as float32: (batch, features)."""


class FloatValues:
    """Values that are all floats."""

    def __init__(self, onnx: OnnxGraph) -> None:
        self._onnx = onnx
        self._names = ["images" if onnx.real == np.float32 else onnx.cast("images", onnx.real)]

    def inputs(self, number: int, operation: Operation) -> list[str]:
        """Return the names of what an operation reads."""
        return [self._names[value] for value in operation.inputs]

    def plain(self, number: int, operation: Operation) -> Operation:
        """Return the operation as it is."""
        return operation

    def add(self, number: int, operation: Operation, result: str) -> None:
        """Take over the result of an operation."""
        self._names.append(result)

    def features(self) -> str:
        """Return the name of the features as float32."""
        features = self._onnx.node("Flatten", self._names[-1], axis=1)
        return features if self._onnx.real == np.float32 else self._onnx.cast(features, np.float32)


class Codes(Protocol):
    """The source of the numbers that codes need."""

    def coding(self, value: int) -> tuple[str, str]:
        """Return the names of a value's scale and zero."""

    def limits(self, number: int, operation: Operation) -> tuple[str, str] | None:
        """Return the names of the lowest and highest code of an operation's result; None if every code is allowed."""


class CodedValues:
    """Values of which some are codes; that of number n is called "codes.n", or "floats.n" if it is computed as floats.

    Args:
        integers: the operations that compute with integers.
    """

    def __init__(self, onnx: OnnxGraph, integers: Collection[int], codes: Codes) -> None:
        self._onnx = onnx
        self._integers = integers
        self._source = codes
        self._last = 0
        self._floats = {0: "images"}
        self._codes: dict[int, str] = {}
        self._decoded: dict[int, str] = {}

    def inputs(self, number: int, operation: Operation) -> list[str]:
        """Return the names of what an operation reads: decoded codes if it computes with integers."""
        if number in self._integers:
            return [self._as_decoded(value) for value in operation.inputs]
        decoded = self._as_computed if isinstance(operation, Conv) else self._as_decoded
        return [self._floats[value] if value in self._floats else decoded(value) for value in operation.inputs]

    def plain(self, number: int, operation: Operation) -> Operation:
        """Return an operation without the activation that limits on its codes replace."""
        if number in self._integers and isinstance(operation, Activated) and operation.activation in PLAIN:
            return operation.model_copy(update={"activation": "none"})
        return operation

    def add(self, number: int, operation: Operation, result: str) -> None:
        """Take over the result of an operation, as codes if it computes with integers."""
        self._last = number + 1
        if number in self._integers:
            self._encode(self._last, result, self._source.limits(number, operation))
            return
        if result in (*self._floats.values(), *self._decoded.values()) or result != self._onnx.nodes[-1].output:
            self._onnx.node("Identity", result)  # an operation that changes nothing
        self._floats[self._last] = self._onnx.rename_last(f"floats.{self._last}")

    def features(self) -> str:
        """Return the name of the features: decoded codes if the last operation computes with integers."""
        if self._last not in self._codes:
            return self._onnx.node("Flatten", self._floats[self._last], axis=1)
        flat = self._onnx.node("Flatten", self._codes[self._last], axis=1)
        return self._onnx.node("DequantizeLinear", flat, *self._source.coding(self._last))

    def _as_decoded(self, value: int) -> str:
        if value not in self._codes:
            self._encode(value, self._floats[value], None)
        if value not in self._decoded:
            decoded = self._onnx.node("DequantizeLinear", self._codes[value], *self._source.coding(value))
            self._decoded[value] = decoded
        return self._decoded[value]

    def _as_computed(self, value: int) -> str:
        scale, zero = self._source.coding(value)
        codes = self._onnx.cast(self._codes[value], np.float32)
        return self._onnx.node("Mul", self._onnx.node("Sub", codes, self._onnx.cast(zero, np.float32)), scale)

    def _encode(self, value: int, numbers: str, limits: tuple[str, str] | None) -> None:
        codes = self._onnx.node("QuantizeLinear", numbers, *self._source.coding(value))
        if limits:
            self._onnx.node("Clip", codes, *limits)
        self._codes[value] = self._onnx.rename_last(f"codes.{value}")
