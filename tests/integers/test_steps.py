"""Every kind of step can be computed by both engines."""

from prunus.integers.compute import NUMPY
from prunus.integers.steps import FloatStep, Limited, Step
from prunus.runtime.native_steps import INTEGER_STEPS


def _kinds(kind: type[Step]) -> set[type[Step]]:
    return {kind} | {deeper for child in kind.__subclasses__() for deeper in _kinds(child)}


def test_both_engines_know_every_step() -> None:
    kinds = _kinds(Step) - {Step, Limited}
    assert set(NUMPY) == kinds
    assert set(INTEGER_STEPS) == kinds - {FloatStep}
