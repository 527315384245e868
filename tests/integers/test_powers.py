"""The weights of 8-bit attention are codes of powers of two."""

import numpy as np

from prunus.integers.powers import LOWEST, TERMS, power_codes
from tests.makers.plain_integers import power_code


def test_codes_are_those_of_powers_of_two_within_a_hundredth_of_a_code() -> None:
    exponents = -np.random.default_rng(0).uniform(0, 18, 200_000).astype(np.float32)
    exact = 255 * 2.0 ** exponents.astype(np.float64)
    assert np.abs(power_codes(exponents) - exact).max() <= 0.511


def test_the_largest_weight_is_255_and_far_smaller_ones_are_0() -> None:
    codes = power_codes(np.array([0, -1, -8, -9.1, -16, -17, -1e30], np.float32))
    assert codes.tolist() == [255, 128, 1, 0, 0, 0, 0]  # 127.5 is rounded to the even number
    assert codes.dtype == np.uint8


def test_each_code_is_that_of_the_plain_series() -> None:
    exponents = -np.random.default_rng(1).uniform(0, 17, 3000).astype(np.float32)
    assert power_codes(exponents).tolist() == [power_code(exponent) for exponent in exponents]
    assert LOWEST == -16
    assert [float(term).hex() for term in TERMS][-1] == "0x1.0000000000000p+0"
