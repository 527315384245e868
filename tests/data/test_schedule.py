from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from itertools import groupby
from typing import get_args

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from prunus.config import Strategy
from prunus.data.schedule import Step, num_steps, schedule

ALL: list[Strategy] = list(get_args(Strategy))

plans = given(
    strategy=st.sampled_from(ALL),
    sizes=st.lists(st.integers(1, 40), min_size=1, max_size=5),
    batch_size=st.integers(2, 12),
    epochs=st.integers(1, 3),
    seed=st.integers(0, 2**40),
)


def plain(steps: Sequence[Step]) -> list[tuple[int, list[tuple[int, list[int]]]]]:
    return [(step.epoch, [(domain, indices.tolist()) for domain, indices in step.parts]) for step in steps]


def domain_order(strategy: Strategy, sizes: Sequence[int], epochs: int = 2, seed: int = 0) -> list[list[int]]:
    """Tell for every epoch which domain each step of 4 images trains."""
    orders: dict[int, list[int]] = defaultdict(list)
    for step in schedule(strategy, sizes, 4, epochs, seed):
        ((domain, _),) = step.parts
        orders[step.epoch].append(domain)
    return [orders[epoch] for epoch in range(epochs)]


@plans
def test_every_epoch_visits_each_image_of_each_domain_once(
    strategy: Strategy, sizes: list[int], batch_size: int, epochs: int, seed: int
) -> None:
    seen: dict[tuple[int, int], list[int]] = defaultdict(list)
    for step in schedule(strategy, sizes, batch_size, epochs, seed):
        for domain, indices in step.parts:
            seen[step.epoch, domain] += indices.tolist()
    assert seen.keys() == {(epoch, domain) for epoch in range(epochs) for domain in range(len(sizes))}
    for (_, domain), visited in seen.items():
        assert sorted(visited) == list(range(sizes[domain]))


@plans
def test_the_number_of_steps_is_known_before(
    strategy: Strategy, sizes: list[int], batch_size: int, epochs: int, seed: int
) -> None:
    assert len(list(schedule(strategy, sizes, batch_size, epochs, seed))) == num_steps(
        strategy, sizes, batch_size, epochs
    )


@plans
def test_no_image_is_alone_in_its_part_where_its_domain_has_others(
    strategy: Strategy, sizes: list[int], batch_size: int, epochs: int, seed: int
) -> None:
    for step in schedule(strategy, sizes, batch_size, epochs, seed):
        for domain, indices in step.parts:
            assert len(indices) >= min(2, sizes[domain])


@plans
def test_a_step_has_a_batch_of_images_and_at_most_one_more_for_each_domain(
    strategy: Strategy, sizes: list[int], batch_size: int, epochs: int, seed: int
) -> None:
    for step in schedule(strategy, sizes, batch_size, epochs, seed):
        domains = [domain for domain, _ in step.parts]
        assert len(set(domains)) == len(domains)
        assert 1 <= sum(len(indices) for _, indices in step.parts) <= batch_size + len(domains)


@pytest.mark.parametrize("strategy", ALL)
def test_the_same_seed_gives_the_same_steps_and_another_seed_others(strategy: Strategy) -> None:
    first, again, other = (list(schedule(strategy, (20, 30), 8, 2, seed)) for seed in (5, 5, 6))
    assert plain(first) == plain(again)
    assert plain(first) != plain(other)


@pytest.mark.parametrize("strategy", ALL)
def test_two_epochs_and_two_domains_are_shuffled_differently(strategy: Strategy) -> None:
    seen: dict[tuple[int, int], list[int]] = defaultdict(list)
    for step in schedule(strategy, (30, 30), 8, 2, seed=0):
        for domain, indices in step.parts:
            seen[step.epoch, domain] += indices.tolist()
    assert len({tuple(indices) for indices in seen.values()}) == 4
    assert list(range(30)) not in seen.values()


def test_round_robin_does_one_domain_after_the_other_in_a_new_order_every_epoch() -> None:
    orders = [[domain for domain, _ in groupby(epoch)] for epoch in domain_order("round_robin", [9] * 5, epochs=6)]
    assert all(sorted(order) == [0, 1, 2, 3, 4] for order in orders)
    assert len({tuple(order) for order in orders}) > 1


def test_alternate_takes_turns_and_the_small_domain_waits() -> None:
    assert domain_order("alternate", [12, 4, 8]) == [[0, 1, 2, 0, 2, 0]] * 2


def test_individual_finishes_a_domain_before_the_next_begins() -> None:
    steps = list(schedule("individual", [8, 4], 4, 2, seed=0))
    assert [(step.parts[0][0], step.epoch) for step in steps] == [(0, 0), (0, 0), (0, 1), (0, 1), (1, 0), (1, 1)]


def test_mixed_has_several_domains_in_a_step() -> None:
    steps = list(schedule("mixed", [40, 40, 40], 12, 1, seed=0))
    several = [step for step in steps if len(step.parts) > 1]
    assert len(several) > len(steps) / 2
    assert {domain for step in steps for domain, _ in step.parts} == {0, 1, 2}


@pytest.mark.parametrize("strategy", ["round_robin", "alternate", "individual"])
def test_the_other_strategies_have_one_domain_in_a_step(strategy: Strategy) -> None:
    assert [len(step.parts) for step in schedule(strategy, [9, 5, 1], 4, 2, seed=0)] == [1] * 8


def test_the_last_single_image_joins_the_batch_before_it() -> None:
    assert [len(step.parts[0][1]) for step in schedule("alternate", [9], 4, 1, seed=0)] == [4, 5]
    assert [len(step.parts[0][1]) for step in schedule("alternate", [10], 4, 1, seed=0)] == [4, 4, 2]


def test_indices_can_index_an_array() -> None:
    step = next(schedule("mixed", [6], 4, 1, seed=0))
    assert np.arange(60)[step.parts[0][1]].tolist() == step.parts[0][1].tolist()
