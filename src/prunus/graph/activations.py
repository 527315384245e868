"""Activations in numpy, equal to those of torch."""

import math
from collections.abc import Callable

import numpy as np

from prunus.arrays import Values
from prunus.graph.operations import ActivationName

# exp(z**2) * erfc(z) = t * polynomial(t) with t = 1 / (1 + z / 3): a least-squares fit for z from 0 to 9, within 3e-9
TAIL = (
    0.056696716,
    -0.297529744,
    0.548589416,
    -0.458704388,
    0.418501546,
    -0.010258021,
    0.195156865,
    0.170742796,
    0.188773952,
    0.188030863,
)


def sigmoid(x: Values) -> Values:
    """Compute 1 / (1 + exp(-x)) without overflow."""
    small = np.exp(-np.abs(x))
    result: Values = np.where(x >= 0, 1, small) / (1 + small)
    return result


def normal_share(x: Values) -> Values:
    """Compute the standard normal distribution function, which gelu multiplies by x."""
    distance = np.abs(x) * math.sqrt(0.5)
    t = 1 / (1 + distance / 3)
    tail = np.zeros_like(t)
    for coefficient in TAIL:
        tail = tail * t + coefficient
    tail = 0.5 * t * tail * np.exp(-distance * distance)
    return np.where(x > 0, 1 - tail, tail)


def _gelu_tanh(x: Values, slope: float) -> Values:
    result: Values = 0.5 * x * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x * x * x)))
    return result


ACTIVATIONS: dict[ActivationName, Callable[[Values, float], Values]] = {
    "none": lambda x, slope: x,
    "relu": lambda x, slope: np.maximum(x, 0),
    "relu6": lambda x, slope: np.clip(x, 0, 6),
    "leaky_relu": lambda x, slope: np.where(x > 0, x, x * slope),
    "elu": lambda x, slope: np.where(x > 0, x, slope * np.expm1(np.minimum(x, 0))),
    "silu": lambda x, slope: x * sigmoid(x),
    "gelu": lambda x, slope: x * normal_share(x),
    "gelu_tanh": _gelu_tanh,
    "mish": lambda x, slope: x * np.tanh(np.logaddexp(0, x)),
    "hard_swish": lambda x, slope: x * np.clip(x + 3, 0, 6) / 6,
    "hard_sigmoid": lambda x, slope: np.clip(x + 3, 0, 6) / 6,
    "sigmoid": lambda x, slope: sigmoid(x),
    "tanh": lambda x, slope: np.tanh(x),
}
