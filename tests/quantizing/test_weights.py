"""Weights become codes with an error of at most half a step, or a smaller one in sum."""

import numpy as np
import pytest

from prunus.arrays import Floats, Integers
from prunus.quantizing.weights import RULES, WeightRule, code_weights


def _drawn(seed: int = 0) -> tuple[Floats, Integers]:
    rng = np.random.default_rng(seed)
    outputs = rng.integers(0, 5, 40)
    return (rng.standard_normal((40, 3, 3)) * 10.0 ** outputs[:, None, None]).astype(np.float32), outputs


def _error(numbers: Floats, outputs: Integers, rule: WeightRule) -> Floats:
    codes, scale = code_weights(numbers, outputs, 6, rule)
    errors: Floats = codes * scale[outputs, None, None] - numbers
    return errors


def test_the_largest_weight_of_every_output_is_the_last_code() -> None:
    numbers, outputs = _drawn()
    codes, scale = code_weights(numbers, outputs, 6, "largest")
    assert codes.dtype == np.int8
    assert codes.shape == numbers.shape
    for output in range(5):
        rows = outputs == output
        assert np.abs(codes[rows]).max() == 127
        assert scale[output] == pytest.approx(np.abs(numbers[rows]).max() / 127, rel=1e-6)
        assert np.abs(_error(numbers, outputs, "largest")[rows]).max() <= scale[output] / 2 * 1.001
    assert scale[5] == 1  # no weights


def test_the_rule_of_least_error_is_never_worse_in_sum() -> None:
    for seed in range(5):
        numbers, outputs = _drawn(seed)
        least, largest = (_error(numbers, outputs, rule) for rule in ("mse", "largest"))
        for output in range(5):
            rows = outputs == output
            assert np.square(least[rows]).sum() <= np.square(largest[rows]).sum() * 1.0001


def test_an_outlier_is_clipped_where_that_costs_less() -> None:
    numbers = np.concatenate([np.linspace(-1, 1, 10_000), [1.3]]).astype(np.float32)[:, None, None]
    outputs = np.zeros(len(numbers), np.int64)
    assert code_weights(numbers, outputs, 1, "mse")[1][0] < code_weights(numbers, outputs, 1, "largest")[1][0]


@pytest.mark.parametrize("rule", RULES)
def test_layers_without_kernels_and_weights_of_zero_have_a_scale(rule: WeightRule) -> None:
    codes, scale = code_weights(np.zeros((0, 3, 3), np.float32), np.zeros(0, np.int64), 2, rule)
    assert (codes.shape, scale.tolist()) == ((0, 3, 3), [1, 1])
    codes, scale = code_weights(np.zeros((1, 3, 3), np.float32), np.zeros(1, np.int64), 1, rule)
    assert not codes.any()
    assert scale.tolist() == [1]
    assert (code_weights(np.full((1, 1, 1), 1e-30, np.float32), np.zeros(1, np.int64), 1, rule)[1] >= 2.0**-40).all()
