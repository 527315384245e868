"""The search for the largest pool: exact where switches simply add up, and never beyond what was measured."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import Tensor

from prunus.budgets.limits import Limits, Usage
from prunus.budgets.meter import MaskMeter
from prunus.budgets.ranking import Ranking
from prunus.budgets.search import FILLED, Search
from prunus.budgets.switch_costs import switch_costs
from prunus.masks.pool import PooledSwitches
from tests.makers.drawn_budgets import GRANULARITIES, draw_case


class _CountingMeter:
    """Counts switches, and how often it is asked for the same ones; may exaggerate."""

    def __init__(self, meter: MaskMeter, factor: float = 1.0) -> None:
        self.meter = meter
        self.factor = factor
        self.asked: list[bytes] = []

    def usage(self, mask_DM: Tensor) -> Usage:
        self.asked.append(mask_DM.numpy().tobytes())
        usage = self.meter.usage(mask_DM)
        return replace(usage, kernels=int(self.factor * usage.kernels))


def _search(limits: Limits, seed: int, granularity: int = 0, factor: float = 1.0) -> tuple[Search, _CountingMeter]:
    drawn = draw_case(np.random.default_rng(seed), GRANULARITIES[granularity])
    pool = drawn.net.switches
    assert isinstance(pool, PooledSwitches)
    positions = drawn.backbone.probe.positions
    costs = switch_costs(pool.layout, positions, len(drawn.net.domains), "float32", torch.device("cpu"))
    meter = _CountingMeter(MaskMeter(pool.layout, positions), factor)
    limits = replace(limits, domains=drawn.net.domains)
    return Search(Ranking(drawn.net, pool, limits, costs), meter), meter


@pytest.mark.parametrize("seed", range(6))
def test_every_kernel_of_the_limit_is_used(seed: int) -> None:
    search, meter = _search(Limits((), kernels=11), seed)
    opened = search.largest()
    total = search.pool.layout.num_switches
    assert opened.any(0).sum() == min(11, total)
    assert bool((opened == opened[0]).all())  # all domains may use the whole pool
    assert len(set(meter.asked)) == len(meter.asked)  # nothing is measured twice


@pytest.mark.parametrize("factor", [0.4, 1.7])
def test_what_is_measured_counts_not_what_is_estimated(factor: float) -> None:
    search, _ = _search(Limits((), kernels=13), 3, factor=factor)
    kernels = int(search.largest().any(0).sum())
    total = search.pool.layout.num_switches
    fitting = [count for count in range(1, total + 1) if int(factor * count) <= 13]
    assert int(factor * kernels) <= 13
    assert int(factor * kernels) == int(factor * max(fitting))


@pytest.mark.parametrize("granularity", range(len(GRANULARITIES)))
@pytest.mark.parametrize("seed", range(4))
def test_macs_are_kept_in_every_domain_and_nearly_used_in_one(seed: int, granularity: int) -> None:
    search, meter = _search(Limits(()), seed, granularity)
    whole = meter.usage(torch.ones_like(search.pool.open_DM))
    search.limits = replace(search.limits, macs=tuple(int(0.6 * macs) for macs in whole.macs))
    search = Search(replace(search.ranking, limits=search.limits), meter)
    opened = search.largest()
    usage = meter.usage(opened)
    assert search.limits.are_kept(usage)
    if search.limits.share_used(usage) < FILLED:  # then no single switch fits in addition
        for switch in (~opened).any(0).nonzero()[:, 0].tolist():
            more = opened.clone()
            more[:, switch] = True
            assert not search.limits.are_kept(meter.usage(more)), switch


@pytest.mark.parametrize("seed", range(8))
def test_a_domain_with_room_under_its_own_macs_uses_kernels_that_others_have_anyway(seed: int) -> None:
    search, meter = _search(Limits((), kernels=17), seed, factor=1.7)  # so the search scales all limits down
    whole = meter.usage(torch.ones_like(search.pool.open_DM))
    macs = tuple(int((0.2 if index else 0.9) * count) for index, count in enumerate(whole.macs))
    search = Search(replace(search.ranking, limits=replace(search.limits, macs=macs)), meter)
    opened = search.largest()
    usage = meter.usage(opened)
    assert search.limits.are_kept(usage)
    for index, limit in enumerate(macs):
        closed = (opened.any(0) & ~opened[index]).nonzero()[:, 0]
        least = search.ranking.costs.macs[closed].min() if len(closed) else torch.inf
        assert usage.macs[index] >= FILLED * limit or usage.macs[index] + least > limit


@pytest.mark.parametrize("seed", range(6))
def test_every_open_switch_is_fixed_where_it_is_wanted_most(seed: int) -> None:
    search, _ = _search(Limits((), kernels=11), seed)
    opened = search.largest()
    fixed = search.fixed(opened)
    for switch in range(search.pool.layout.num_switches):
        if not bool(opened[0, switch]):
            assert not bool(fixed[:, switch].any())
        else:
            assert fixed[:, switch].nonzero()[:, 0].tolist() == [int(search.pool.scores_DM[:, switch].argmax())]


def test_with_macs_one_domain_keeps_enough_on_to_fill_them() -> None:
    for seed in range(8):
        search, meter = _search(Limits(()), seed)
        whole = meter.usage(torch.ones_like(search.pool.open_DM))
        limits = replace(search.limits, macs=tuple(int(0.5 * macs) for macs in whole.macs))
        search = Search(replace(search.ranking, limits=limits), meter)
        opened = search.largest()
        fixed = search.fixed(opened)
        assert not bool((fixed & ~opened).any())
        share = limits.share_used(meter.usage(opened))
        assert limits.share_used(meter.usage(fixed)) >= min(FILLED, share)
