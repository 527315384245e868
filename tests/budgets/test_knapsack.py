"""The knapsack against all subsets: never over a limit, and hardly worse than the best choice."""

from itertools import product

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from prunus.budgets.knapsack import FILLS, choose

MOST = 8  # switches: 256 subsets


def _best_value(value: list[float], costs: list[list[float]], limits: list[float]) -> float:
    """Try every subset."""
    best = 0.0
    for subset in product((0, 1), repeat=len(value)):
        within = all(
            sum(c * on for c, on in zip(row, subset, strict=True)) <= limit
            for row, limit in zip(costs, limits, strict=True)
        )
        if within:
            best = max(best, sum(v * on for v, on in zip(value, subset, strict=True)))
    return best


def _chosen(value: list[float], costs: list[list[float]], limits: list[float]) -> Tensor:
    return choose(*(torch.tensor(numbers, dtype=torch.float64) for numbers in (value, costs, limits)))


@st.composite
def _problems(draw: st.DrawFn) -> tuple[list[float], list[list[float]], list[float]]:
    size, rows = draw(st.integers(1, MOST)), draw(st.integers(1, 3))
    value = draw(st.lists(st.integers(0, 20).map(float), min_size=size, max_size=size))
    cost = st.lists(st.integers(0, 9).map(float), min_size=size, max_size=size)
    costs = [draw(cost) for _ in range(rows)]
    return value, costs, [float(draw(st.integers(1, 30))) for _ in range(rows)]


@given(_problems())
def test_no_limit_is_exceeded_and_nothing_that_fits_is_left(
    problem: tuple[list[float], list[list[float]], list[float]],
) -> None:
    value, costs, limits = problem
    chosen = _chosen(value, costs, limits).numpy()
    used = np.array(costs) @ chosen
    assert (used <= limits).all()
    for index in np.flatnonzero(~chosen) if len(value) <= FILLS + 1 else ():  # more may need more rounds
        assert (used + np.array(costs)[:, index] > limits).any(), index


@pytest.mark.parametrize(("rows", "factor"), [(1, 0.95), (2, 0.9), (3, 0.85)])
def test_the_value_is_near_that_of_the_best_subset(rows: int, factor: float) -> None:
    rng = np.random.default_rng(rows)
    shares = []
    for _ in range(40):
        value = rng.exponential(size=MOST).tolist()
        costs = rng.uniform(0.2, 1, (rows, MOST))
        limits = (costs.sum(1) * rng.uniform(0.3, 0.8, rows)).tolist()
        found = float((torch.tensor(value) * _chosen(value, costs.tolist(), limits)).sum())
        shares.append(found / _best_value(value, costs.tolist(), limits))
    assert max(shares) <= 1 + 1e-6
    assert float(np.mean(shares)) >= factor
    assert min(shares) >= 0.6  # half is what a greedy choice promises


def test_learned_weights_beat_equal_ones_where_only_one_limit_binds() -> None:
    # what is dear by the loose limit is cheap by the tight one
    value, costs = [1.0] * 8, [[1.0] * 4 + [4.0] * 4, [40.0] * 4 + [1.0] * 4]
    limits = [4.0, 1000.0]
    assert _chosen(value, costs, limits).tolist() == [True] * 4 + [False] * 4


@given(st.lists(st.integers(0, 5).map(float), min_size=1, max_size=30), st.integers(0, 30))
def test_equal_costs_are_a_top_k_and_of_equals_the_first_is_taken(value: list[float], count: int) -> None:
    chosen = _chosen(value, [[2.0] * len(value)], [2.0 * count + 1])
    expected = sorted(range(len(value)), key=lambda index: (-value[index], index))[:count]
    assert chosen.nonzero()[:, 0].tolist() == sorted(expected)


@pytest.mark.parametrize("costs", [[[3.0, 1.0, 1.0]], [[3.0, 1.0, 1.0], [1.0, 1.0, 1.0]]])
def test_an_infinite_value_comes_first_whatever_it_costs(costs: list[list[float]]) -> None:
    chosen = _chosen([float("inf"), 100.0, 100.0], costs, [3.0] * len(costs))
    assert chosen.tolist() == [True, False, False]


def test_what_costs_nothing_is_always_taken() -> None:
    assert _chosen([0.0, 5.0, 9.0], [[0.0, 2.0, 2.0]], [2.0]).tolist() == [True, False, True]
    assert _chosen([0.0, 5.0, 9.0], [[0.0, 2.0, 2.0], [0.0, 1.0, 1.0]], [2.0, 5.0]).tolist() == [True, False, True]


def test_a_limit_above_all_costs_takes_everything() -> None:
    rng = np.random.default_rng(0)
    costs = rng.uniform(0, 1, (2, 50))
    assert bool(_chosen(rng.uniform(size=50).tolist(), costs.tolist(), costs.sum(1).tolist()).all())


@pytest.mark.parametrize("rows", [1, 2, 3])
@pytest.mark.parametrize("seed", range(5))
def test_the_choice_does_not_depend_on_the_order_of_the_switches(rows: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    layer = np.repeat(np.arange(6), 50)  # neighbours of equal costs are sorted once; shuffled, there are hardly any
    value, costs = rng.exponential(size=len(layer)), rng.integers(1, 9, (rows, 6)).astype(float)[:, layer]
    limits = (costs.sum(1) * rng.uniform(0.2, 0.8, rows)).tolist()
    shuffled = rng.permutation(len(layer))
    chosen = _chosen(value.tolist(), costs.tolist(), limits).numpy()
    again = _chosen(value[shuffled].tolist(), costs[:, shuffled].tolist(), limits).numpy()
    assert 0 < chosen.sum() < len(layer)
    assert np.array_equal(chosen[shuffled], again)
