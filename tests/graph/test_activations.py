"""Activations in numpy equal those of torch."""

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from prunus.graph.activations import ACTIVATIONS, normal_share

SLOPE = 0.3
EXPECTED: dict[str, Callable[[Tensor], Tensor]] = {
    "none": lambda x: x,
    "relu": F.relu,
    "relu6": F.relu6,
    "leaky_relu": lambda x: F.leaky_relu(x, SLOPE),
    "elu": lambda x: F.elu(x, SLOPE),
    "silu": F.silu,
    "gelu": F.gelu,
    "gelu_tanh": lambda x: F.gelu(x, approximate="tanh"),
    "mish": F.mish,
    "hard_swish": F.hardswish,
    "hard_sigmoid": F.hardsigmoid,
    "sigmoid": torch.sigmoid,
    "tanh": torch.tanh,
}


@pytest.mark.parametrize("name", ACTIVATIONS)
def test_an_activation_equals_that_of_torch(name: Any) -> None:  # noqa: ANN401  # a literal
    x = np.linspace(-10, 10, 4001)
    tolerance = 3e-8 if name == "gelu" else 1e-14  # numpy has no erf; ours is an approximation
    expected = EXPECTED[name](torch.from_numpy(x)).numpy()
    largest = max(1.0, float(np.abs(expected).max()))
    activated = ACTIVATIONS[name](x, SLOPE)
    assert activated.shape == expected.shape
    np.testing.assert_allclose(activated, expected, rtol=0, atol=tolerance * largest)
    far = np.array([-1e4, -200.0, 200.0, 1e4], dtype=np.float32)
    activated = ACTIVATIONS[name](far, SLOPE)
    assert activated.dtype == np.float32
    np.testing.assert_allclose(activated, EXPECTED[name](torch.from_numpy(far)).numpy(), rtol=1e-6)


def test_the_normal_distribution_is_accurate_to_a_hundred_millionth_in_its_tails_too() -> None:
    x = np.linspace(-10, 10, 4001)
    expected = [0.5 * math.erfc(-value / math.sqrt(2)) for value in x]
    np.testing.assert_allclose(normal_share(x), expected, rtol=1e-8)
