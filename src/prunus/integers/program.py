"""Lower a bundle to a list of steps, with conversions between floats and codes where they are needed.

A bundle of floats becomes its graph.
"""

from __future__ import annotations

from dataclasses import dataclass

from prunus.bundle.bundle import Bundle
from prunus.bundle.eight_bits.rules import sum_fits
from prunus.graph.operations import Operation, Shape
from prunus.integers.coding import Codings, inverse_scales, value_codings
from prunus.integers.factors import INTEGER, Coded, integer_head
from prunus.integers.steps import DequantizeStep, FloatStep, IntegerHead, QuantizeStep, Step


@dataclass(frozen=True)
class Program:
    """What an engine computes.

    Args:
        codings: of the lowered values that are coded.
        heads: of each domain; None if the classifiers compute with floats, and read the last value as floats.
    """

    steps: tuple[Step, ...]
    image: Shape
    codings: dict[int, Codings]
    heads: tuple[IntegerHead, ...] | None

    @property
    def shapes(self) -> list[Shape]:
        """Return the shape of every value, the image first."""
        return [self.image, *(step.shape for step in self.steps)]


def lower(bundle: Bundle) -> Program:
    """Return the steps of a bundle."""
    lowering = _Lowering(bundle)
    for number, operation in enumerate(bundle.manifest.graph):
        lowering.add(number, operation)
    heads = lowering.heads()
    return Program(tuple(lowering.steps), bundle.manifest.shapes[0], lowering.codings, heads)


class _Lowering:
    """A bundle that is being lowered, and the steps so far."""

    def __init__(self, bundle: Bundle) -> None:
        self.coded = Coded(bundle, value_codings(bundle))
        self.shapes = bundle.manifest.shapes
        self.integers = set(bundle.manifest.integers)
        self.steps: list[Step] = []
        self.codings: dict[int, Codings] = {}
        self._floats = {0: 0}  # value of the graph -> lowered value that holds it in floats
        self._codes: dict[int, int] = {}

    def add(self, number: int, operation: Operation) -> None:
        """Add the step of an operation, and what converts its inputs."""
        is_integer = number in self.integers
        convert = self._as_codes if is_integer else self._as_floats
        inputs = tuple(convert(value) for value in operation.inputs)
        if is_integer:
            step = INTEGER[operation.op](self.coded, number, operation, inputs)
            self._codes[number + 1] = self._append(step, self.coded.coding[number + 1])
        else:
            moved = operation if inputs == operation.inputs else operation.model_copy(update={"inputs": inputs})
            self._floats[number + 1] = self._append(FloatStep(inputs, self.shapes[number + 1], number, moved))

    def heads(self) -> tuple[IntegerHead, ...] | None:
        """Return integer classifiers if the features are coded; otherwise make sure that they are floats."""
        last, bundle = len(self.shapes) - 1, self.coded.bundle
        if last in self._codes and sum_fits(bundle.manifest.num_features):
            return tuple(integer_head(bundle, index, self.coded.coding[last]) for index in range(len(bundle.domains)))
        self._as_floats(last)
        return None

    def _append(self, step: Step, codings: Codings | None = None) -> int:
        self.steps.append(step)
        if codings is not None:
            self.codings[len(self.steps)] = codings
        return len(self.steps)

    def _as_floats(self, value: int) -> int:
        if value not in self._floats:
            source, codings = self._codes[value], self.coded.coding[value]
            step = DequantizeStep((source,), self.shapes[value], codings.scales, codings.zeros)
            self._floats[value] = self._append(step)
        return self._floats[value]

    def _as_codes(self, value: int) -> int:
        if value not in self._codes:
            source, codings = self._floats[value], self.coded.coding[value]
            step = QuantizeStep((source,), self.shapes[value], inverse_scales(codings.scales), codings.zeros)
            self._codes[value] = self._append(step, codings)
        return self._codes[value]
