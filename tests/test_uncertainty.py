"""95 % intervals: Wilson's by solving its definition, those of means and differences by simulation."""

import math
import statistics

import numpy as np
import pytest

from prunus.uncertainty import T, Z, accuracy_interval, is_noise, mean_interval, over_seeds


@pytest.mark.parametrize("images", [1, 7, 200, 10_000])
@pytest.mark.parametrize("share", [0.0, 0.03, 0.5, 0.93, 1.0])
def test_the_ends_are_where_the_accuracy_is_just_plausible(share: float, images: int) -> None:
    for end in accuracy_interval(share, images):
        # by definition: so far from the end that 2.5 % of a normal distribution lie beyond
        assert abs(share - end) == pytest.approx(Z * math.sqrt(end * (1 - end) / images), abs=1e-8)


def test_known_intervals_are_found() -> None:
    assert accuracy_interval(0.9, 200) == pytest.approx((0.8505, 0.9343), abs=1e-4)  # 180 of 200
    assert accuracy_interval(1.0, 10) == pytest.approx((0.7225, 1.0), abs=1e-4)


def test_the_interval_of_a_mean_over_domains_holds_its_truth_as_often_as_it_should() -> None:
    random = np.random.default_rng(0)
    truth = {"a": (0.97, 150), "b": (0.6, 200), "c": (0.85, 300)}
    mean = statistics.fmean(share for share, _ in truth.values())
    inside = 0
    for _ in range(2000):
        found = {name: random.binomial(images, share) / images for name, (share, images) in truth.items()}
        intervals = {name: accuracy_interval(found[name], images) for name, (_, images) in truth.items()}
        low, high = mean_interval(found, intervals)
        inside += low <= mean <= high
    assert 0.935 < inside / 2000 < 0.97


def test_seeds_widen_an_interval_by_students_distribution() -> None:
    low, high = over_seeds([0.8, 0.9, 0.85], [(0.8, 0.8), (0.9, 0.9), (0.85, 0.85)])  # infinitely many images
    reach = 4.3027 * 0.05 / math.sqrt(3)
    assert (low, high) == pytest.approx((0.85 - reach, 0.85 + reach))
    wider = over_seeds([0.8, 0.9, 0.85], [(0.7, 0.85), (0.8, 0.95), (0.75, 0.9)])
    assert wider == pytest.approx((0.85 - math.hypot(reach, 0.1), 0.85 + math.hypot(reach, 0.05)))
    assert over_seeds([0.5, 0.9], [(0.4, 0.6), (0.8, 1.0)]) == (0.0, 1.0)  # a share


def test_students_quantiles_are_those_of_simulated_samples() -> None:
    random = np.random.default_rng(1)
    for degrees in (2, 5, 9):
        samples = random.standard_normal((200_000, degrees + 1))
        ratios = samples.mean(1) / (samples.std(1, ddof=1) / math.sqrt(degrees + 1))
        assert np.quantile(ratios, 0.975) == pytest.approx(T[degrees - 1], rel=0.02)


def test_a_difference_is_noise_if_its_interval_contains_zero() -> None:
    few = (0.9, accuracy_interval(0.9, 200)), (0.87, accuracy_interval(0.87, 200))
    many = (0.9, accuracy_interval(0.9, 20_000)), (0.87, accuracy_interval(0.87, 20_000))
    assert is_noise(*few[0], *few[1])
    assert not is_noise(*many[0], *many[1])
