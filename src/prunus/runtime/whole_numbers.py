"""Whole numbers as users give them: of Python, of numpy, never true or false."""

from __future__ import annotations

import operator

from prunus.errors import PrunusError


def whole_number(name: str, given: object, most: int | None = None) -> int:
    """Give a number of at least 1 as Python's own, or refuse it by name."""
    try:
        number = 0 if isinstance(given, bool) else operator.index(given)  # type: ignore[arg-type]  # that is the question
    except TypeError:
        number = 0
    if number < 1 or (most is not None and number > most):
        allowed = "of at least 1" if most is None else f"from 1 to {most}"
        raise PrunusError(f"{name} must be a whole number {allowed}, got {given!r}")
    return number
