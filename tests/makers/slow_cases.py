"""Cases of a test of which only the first is quick."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeVar

import pytest
from _pytest.mark.structures import ParameterSet

T = TypeVar("T")


def slow_after_first(cases: Iterable[T]) -> list[T | ParameterSet]:
    """Mark all cases but the first as slow: `make quick` runs one, `make test` all."""
    first, *others = cases
    return [first, *(pytest.param(case, marks=pytest.mark.slow) for case in others)]
