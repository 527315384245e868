"""Compare a model of an 8-bit file with the file: every operation alone, and the logits of the whole.

A runtime may round a sum that lies between two codes to the other one. Later operations amplify that, so that logits of
a right model can differ visibly from the file's. What an operation makes of the runtime's own inputs cannot: it is
compared here with the exact number, which codes miss by half a step and by what the model's format has to round.

Logits may differ by a small share of how much they vary between images. In a deep network codes that were rounded the
other way may add up to more. It is less than what rounding to 8 bits changed, as the network in float32 shows.

Legend: N = images, K = classes.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from prunus.arrays import Array, Doubles, Floats
from prunus.bundle.eight_bits.rules import LARGEST_CODE
from prunus.graph.compute import compute
from prunus.graph.operations import Conv, Operation
from prunus.onnx.coded_network import CodedNetwork, sums_floats

HALF = 0.52  # of a step; the rest is for what runtimes compute in float32
NAMES = ("codes.", "floats.")  # how the names of values begin
CLOSE = 1e-4  # floats, in units of the largest
SPREAD, ROUNDED = 0.15, 0.75  # logits, in units of how much they vary, and of what rounding to 8 bits changed
CLEAR = 4  # times the error that is allowed: a class that leads by so much stays the first


@dataclass(frozen=True)
class CodedCheck:
    """The values of one domain in a runtime, by name: "codes.n", "floats.n", "images" and "logits"."""

    coded: CodedNetwork
    domain: int
    values: Mapping[str, Array]

    def errors(self) -> Iterator[tuple[str, float]]:
        """Yield the name of every value and its largest error, where 1 is the largest that is allowed."""
        for value in self.coded.codings:
            if value - 1 not in self.coded.integers:
                yield f"codes.{value}", self._code_error(value, self._floats(value), (0, LARGEST_CODE), HALF)
        for number, operation in enumerate(self.coded.network.graph):
            yield self._operation_error(number, operation)
        yield "logits", self._logits_error()

    def _operation_error(self, number: int, operation: Operation) -> tuple[str, float]:
        is_integer = number in self.coded.integers
        read = self._decoded if is_integer else self._floats
        tensors = {
            role: tensor.astype(np.float64)
            for role, tensor in self.coded.network.domain_tensors(self.domain, number).items()
        }
        sides = self.coded.network.shapes[number + 1][1:]
        exact = compute(operation, [read(value) for value in operation.inputs], tensors, sides).astype(np.float64)
        if not is_integer:
            return f"floats.{number + 1}", _float_error(self._floats(number + 1), exact, 0.0)
        limits = self.coded.limits(number, operation)[self.domain]
        allowed = HALF + self._rounding(number, operation) / self._scale(number + 1)
        return f"codes.{number + 1}", self._code_error(number + 1, exact, limits, allowed)

    def _rounding(self, number: int, operation: Operation) -> float:
        """Return what a convolution loses at most by its integer bias."""
        if not isinstance(operation, Conv) or sums_floats(operation):
            return 0.0
        return float(self.coded.folded(number, operation)[self.domain].units.max(initial=0.0)) / 2

    def _logits_error(self) -> float:
        features = self._floats(len(self.coded.network.graph))
        weight, bias = (tensor.astype(np.float64) for tensor in self.coded.network.heads[self.domain])
        exact = features.reshape(len(features), -1) @ weight.T + bias
        return _float_error(self.values["logits"][:, : len(bias)].astype(np.float64), exact, self._unit_of_logits())

    def _unit_of_logits(self) -> float:
        last = len(self.coded.network.graph)
        if last not in self.coded.codings:
            return 0.0
        return float(self.coded.head_norms()[self.domain].units.max()) / 2

    def _code_error(self, value: int, exact: Doubles, limits: tuple[int, int], allowed: float) -> float:
        _, zero = self._coding(value)
        wanted = np.clip(exact / self._scale(value) + zero, *limits)
        found = self.values[f"codes.{value}"].astype(np.float64)
        return float(np.abs(found - wanted).max(initial=0.0)) / allowed

    def _coding(self, value: int) -> tuple[float, float]:
        scales_D, zeros_D = self.coded.codings[value].doubles()
        return float(scales_D[self.domain]), float(zeros_D[self.domain])

    def _scale(self, value: int) -> float:
        return self._coding(value)[0]

    def _decoded(self, value: int) -> Doubles:
        scale, zero = self._coding(value)
        return scale * (self.values[f"codes.{value}"].astype(np.float64) - zero)

    def _floats(self, value: int) -> Doubles:
        name = "images" if value == 0 else f"floats.{value}"
        return self.values[name].astype(np.float64) if name in self.values else self._decoded(value)


def logits_error(found_NK: Floats, file_NK: Floats, floats_NK: Floats) -> float:
    """Return how far logits are from those of an 8-bit file, where 1 is the largest error that is allowed.

    It is infinite if an image has another class, though the file's own leads clearly.

    Args:
        floats_NK: those of the same network in float32, without any codes.
    """
    found, file, floats = (logits.astype(np.float64) for logits in (found_NK, file_NK, floats_NK))
    spread, rounded = _size(file - file.mean(axis=0)), _size(floats - file)
    allowed = max(SPREAD * spread, ROUNDED * rounded, CLOSE * float(np.abs(file).max()), 1e-10)
    images = np.arange(len(file))
    lead_N = file.max(axis=1) - file[images, found.argmax(axis=1)]  # 0 where the class is the same
    return float("inf") if (lead_N > CLEAR * allowed).any() else _size(found - file) / allowed


def _size(numbers: Doubles) -> float:
    return float(np.sqrt(np.mean(numbers**2)))


def _float_error(found: Doubles, exact: Doubles, extra: float) -> float:
    allowed = CLOSE * max(float(np.abs(exact).max(initial=0.0)), 1e-6) + extra
    return float(np.abs(found - exact).max(initial=0.0)) / allowed
