"""One operation on its way into a graph, with every domain's numbers.

Legend: D = domains, C = channels.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from prunus.arrays import Doubles
from prunus.graph.operations import Operation


@dataclass(frozen=True)
class Draft:
    """An operation and its tensors by role: (D, ...); one that is missing stands for what changes nothing."""

    operation: Operation
    tensors: Mapping[str, Doubles] = field(default_factory=dict)


def scale_and_bias(tensors: Mapping[str, Doubles], shape_DC: tuple[int, ...]) -> tuple[Doubles, Doubles]:
    """Give a scale and a bias, 1 and 0 where they are missing."""
    return tensors.get("scale", np.ones(shape_DC)), tensors.get("bias", np.zeros(shape_DC))


def without_neutral(tensors: Mapping[str, Doubles]) -> dict[str, Doubles]:
    """Leave out scales of all ones, and biases and ones of all zeros."""
    return {role: tensor for role, tensor in tensors.items() if not (tensor == (role == "scale")).all()}
