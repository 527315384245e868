"""What rounding alone makes of the logits of a network, however it was damaged."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from unittest.mock import patch

import numpy as np

from prunus.arrays import Array, Floats, Values
from prunus.bundle.bundle import Bundle
from prunus.integers.compute import compute
from prunus.integers.steps import Step
from prunus.runtime.numpy_engine import NumpyEngine

ROUNDING = 1e-6  # of the largest number of a value: what engines may differ by in one operation
DRAWS = 3


def rounded_logits(bundle: Bundle, images: Floats, domain: str) -> list[Floats]:
    """Return the logits a few times, where every operation adds noise of the size of rounding errors."""
    rng = np.random.default_rng(0)

    def noisy(step: Step, inputs: Sequence[Array], tensors: Mapping[str, Values], index: int) -> Array:
        result = compute(step, inputs, tensors, index)
        if result.dtype != np.float32:
            return result
        size = ROUNDING * float(np.abs(result).max(initial=0))
        return np.add(result, size * rng.standard_normal(result.shape), dtype=np.float32, casting="same_kind")

    with patch("prunus.runtime.numpy_engine.compute", noisy), np.errstate(all="ignore"):
        return [NumpyEngine(bundle).logits(images, domain) for _ in range(DRAWS)]
