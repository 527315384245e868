"""Whole numbers as users pass them: from Python or numpy, but not booleans."""

import operator

from prunus.errors import PrunusError


def whole_number(name: str, value: object, most: int | None = None) -> int:
    """Return a number of at least 1 as a Python int; raise an error that names it otherwise."""
    try:
        number = 0 if isinstance(value, bool) else operator.index(value)  # type: ignore[arg-type]  # raises TypeError
    except TypeError:
        number = 0
    if number < 1 or (most is not None and number > most):
        allowed = "of at least 1" if most is None else f"from 1 to {most}"
        raise PrunusError(f"{name} must be a whole number {allowed}, got {value!r}")
    return number
