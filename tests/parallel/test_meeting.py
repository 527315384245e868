"""Processes that meet in a store in which earlier processes have left their names."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import pytest
from torch._C._distributed_c10d import HashStore

from prunus.parallel.meeting import meet


def _meet_all(store: HashStore, world: int, order: Callable[[int], int] = int) -> list[str]:
    with ThreadPoolExecutor(world) as pool:
        ranks = sorted(range(world), key=order)
        names = dict(zip(ranks, pool.map(lambda rank: meet(store, rank, world, 20), ranks), strict=True))
    return [names[rank] for rank in range(world)]


@pytest.mark.parametrize("world", [2, 5])
def test_all_processes_get_the_same_new_name_each_time(world: int) -> None:
    store = HashStore()
    meetings = [_meet_all(store, world) for _ in range(3)]
    assert all(len(set(names)) == 1 for names in meetings)
    assert len({names[0] for names in meetings}) == 3


def test_a_smaller_and_a_larger_group_meet_after_one_another() -> None:
    store = HashStore()
    names = [_meet_all(store, world, lambda rank: -rank) for world in (3, 2, 4)]
    assert [len(set(group)) for group in names] == [1, 1, 1]


def test_a_process_that_was_replaced_before_it_answered_is_not_waited_for() -> None:
    store = HashStore()
    store.set("here/1", "a process of an earlier start")
    store.set("proposal", '["old", ["first", "a process of an earlier start"]]')
    store.set("begun/old", "")
    first, second = _meet_all(store, 2)
    assert first == second != "old"


def test_processes_that_do_not_come_are_named() -> None:
    with pytest.raises(TimeoutError, match=r"processes \[1, 2\] did not come"):
        meet(HashStore(), 0, 3, 0.2)
