"""A pool of switches: what may be on, what must be on, and what learns."""

import pytest
import torch
from torch import Tensor

from prunus.masks.layout import ConvShape, SwitchLayout
from prunus.masks.pool import PooledSwitches

LAYOUT = SwitchLayout((ConvShape("a", 2, 3, (3, 3)), ConvShape("b", 2, 2, (1, 1))))


def _drawn(seed: int = 0) -> PooledSwitches:
    """Switches in every combination of open or closed, fixed or not, wanted or not."""
    generator = torch.Generator().manual_seed(seed)
    pool = PooledSwitches(LAYOUT, num_domains=3)
    with torch.no_grad():
        pool.scores_DM.copy_(torch.randn(pool.scores_DM.shape, generator=generator))
        drawn_DM = torch.rand(pool.scores_DM.shape, generator=generator)
        pool.restrict(drawn_DM < 0.7, drawn_DM < 0.3)
    return pool


def _rows(pool: PooledSwitches) -> Tensor:
    return torch.stack([torch.cat([bits.flatten() for bits in pool.bits(domain).values()]) for domain in range(3)])


def test_everything_is_open_and_on_at_the_start() -> None:
    pool = PooledSwitches(LAYOUT, num_domains=3)
    assert bool(pool.open_DM.all()) and bool(pool.masks().all()) and not bool(pool.fixed_DM.any())


@pytest.mark.parametrize("seed", range(5))
def test_a_switch_is_on_if_it_is_open_and_wanted_or_fixed(seed: int) -> None:
    pool = _drawn(seed)
    for domain in range(3):
        for switch in range(LAYOUT.num_switches):
            wanted = float(pool.scores_DM.detach()[domain, switch]) > pool.threshold
            on = bool(pool.open_DM[domain, switch]) and (wanted or bool(pool.fixed_DM[domain, switch]))
            assert bool(pool.masks()[domain, switch]) == on
    assert torch.equal(_rows(pool), pool.masks().float())


def test_gradients_reach_open_switches_only_also_those_that_are_off() -> None:
    pool = _drawn()
    slopes = torch.arange(1.0, 1 + pool.scores_DM.numel()).reshape(pool.scores_DM.shape)
    (_rows(pool) * slopes).sum().backward()  # type: ignore[no-untyped-call]
    assert pool.scores_DM.grad is not None
    assert torch.equal(pool.scores_DM.grad, slopes * pool.open_DM)


def test_a_pool_only_shrinks_and_what_is_fixed_is_open() -> None:
    pool = _drawn()
    before = pool.open_DM.clone()
    pool.restrict(torch.ones_like(before), torch.ones_like(before))
    assert torch.equal(pool.open_DM, before)
    assert torch.equal(pool.fixed_DM, before)
    fewer = before & (torch.arange(before.shape[1]) % 2 == 0)
    pool.restrict(fewer)
    assert torch.equal(pool.open_DM, fewer)
    assert not bool((pool.masks() & ~fewer).any())


def test_fixed_switches_stay_on_and_closed_ones_off_whatever_is_learned() -> None:
    pool = _drawn()
    for score in (-5.0, 5.0):
        pool.scores_DM.data.fill_(score)
        assert bool(pool.masks()[pool.fixed_DM].all())
        assert not bool(pool.masks()[~pool.open_DM].any())
    pool.scores_DM.data.fill_(-5.0)
    assert torch.equal(pool.masks(), pool.fixed_DM)


def test_the_bounds_are_saved_with_the_scores() -> None:
    pool, other = _drawn(), PooledSwitches(LAYOUT, num_domains=3)
    other.load_state_dict(pool.state_dict())
    assert torch.equal(other.open_DM, pool.open_DM)
    assert torch.equal(other.masks(), pool.masks())


def test_a_closed_switch_removes_its_kernel_from_the_weights() -> None:
    pool = _drawn()
    weights = {"a.weight": torch.randn(2, 3, 3, 3), "b.weight": torch.randn(2, 2, 1, 1)}
    for domain in range(3):
        tensors = pool.tensors(domain, weights)
        masks = LAYOUT.views(pool.masks()[domain])
        for name, mask in masks.items():
            assert torch.equal(tensors[f"{name}.weight"], weights[f"{name}.weight"] * mask)
