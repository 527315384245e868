"""A range covers the numbers of a value, or those that matter."""

import numpy as np
import pytest

from prunus.quantizing.ranges import RULES, RangeRule, coding_of, make_histogram, unchanged

NORMAL = np.random.default_rng(0).standard_normal(200_000).astype(np.float32)


@pytest.mark.parametrize(
    ("span", "scale", "zero"),
    [((0.0, 2.55), 0.01, 0), ((-1.0, 1.55), 0.01, 100), ((-2.55, 0.0), 0.01, 255), ((1.0, 2.55), 0.01, 0)],
)
def test_a_coding_covers_a_range_and_zero_is_a_code(span: tuple[float, float], scale: float, zero: int) -> None:
    assert coding_of(span)[0] == pytest.approx(scale)
    assert coding_of(span)[1] == zero
    assert coding_of((0.0, 0.0))[0] >= 2.0**-40


def test_the_largest_numbers_are_covered() -> None:
    histogram = make_histogram(NORMAL, -5.0, 7.0)
    assert RULES["largest"](histogram, unchanged) == (-5.0, 7.0)


@pytest.mark.parametrize("rule", ["percentile", "mse"])
def test_rare_numbers_are_left_out(rule: RangeRule) -> None:
    low, high = RULES[rule](make_histogram(NORMAL, -50.0, 100.0), unchanged)
    assert -25 <= low <= -3
    assert 3 <= high <= 40


def test_the_rule_of_least_error_gives_the_least_error() -> None:
    histogram = make_histogram(NORMAL, float(NORMAL.min()), 12.0)

    def error(span: tuple[float, float]) -> float:
        scale, zero = coding_of(span)
        codes = np.clip(np.rint(NORMAL / scale) + zero, 0, 255)
        return float(np.square((codes - zero) * scale - NORMAL).mean())

    best = error(RULES["mse"](histogram, unchanged))
    assert all(best <= error(RULES[rule](histogram, unchanged)) * 1.001 for rule in RULES)


@pytest.mark.parametrize("rule", RULES)
def test_values_of_one_sign_and_values_of_zeros_have_a_range(rule: RangeRule) -> None:
    low, high = RULES[rule](make_histogram(np.abs(NORMAL), 0.0, 5.0), unchanged)
    assert low == 0
    assert high > 2
    low, high = RULES[rule](make_histogram(-np.abs(NORMAL), -5.0, 0.0), unchanged)
    assert low < -2
    assert high == pytest.approx(0, abs=0.01)
    assert coding_of(RULES[rule](make_histogram(np.zeros(9, np.float32), 0.0, 0.0), unchanged))[1] == 0


def test_the_rule_of_least_error_leaves_out_numbers_that_an_activation_makes_equal() -> None:
    numbers = 8 * NORMAL
    histogram = make_histogram(numbers, float(numbers.min()), float(numbers.max()))
    low, high = RULES["mse"](histogram, lambda x: np.clip(x, -3, None))
    assert -5 <= low <= -3
    assert high == pytest.approx(histogram.high, rel=0.3)
    assert RULES["mse"](histogram, unchanged)[0] < -15
