"""A new domain adds as many kernels to a model file as it may, and no more."""

import pytest
import torch

from prunus.budgets.growth import GrowthKeeper
from prunus.masks.network import MultiDomainNet
from prunus.methods.table import adapt
from tests.makers.tiny_training import tiny_backbone

TOTAL = 6 * 3 + 5 * 6  # kernels of the network


def opened(seed: int = 0) -> tuple[MultiDomainNet, dict[str, torch.Tensor]]:
    """Return a network of one new domain, and the kernels that its file has."""
    generator = torch.Generator().manual_seed(seed)
    kept = {"0": torch.rand(6, 3, generator=generator) < 0.3, "3": torch.rand(5, 6, generator=generator) < 0.3}
    return adapt(tiny_backbone(), {"new": ["x", "y"]}, "exact"), kept


def row(kept: dict[str, torch.Tensor]) -> torch.Tensor:
    return torch.cat([mask.flatten() for mask in kept.values()])


@pytest.mark.parametrize("most", [1, 7, 20])
def test_it_ends_with_exactly_the_kernels_that_may_be_added(most: int) -> None:
    net, kept = opened()
    keeper = GrowthKeeper(net, kept, most)
    sizes = []
    for step in range(0, 400, 20):
        keeper.advance(step, step / 400)
        sizes.append(int(keeper.pool.open_DM.sum()))
    assert sizes == sorted(sizes, reverse=True)
    assert sizes[0] == TOTAL
    assert keeper.is_final()
    added = keeper.pool.masks()[0] & ~row(kept)
    assert int(added.sum()) == most == keeper.usage().kernels
    assert keeper.usage().weights == 9 * most
    assert keeper.summary() == f"{most} of {most} kernels"


def test_the_kernels_of_the_file_stay_open() -> None:
    net, kept = opened()
    keeper = GrowthKeeper(net, kept, 3)
    keeper.finish()
    assert keeper.pool.open_DM[0][row(kept)].all()
    assert not keeper.pool.fixed_DM[0][row(kept)].any()


def test_the_largest_kernels_are_added() -> None:
    net, kept = opened()
    weights = net.tensors("new")
    with torch.no_grad():
        norms = torch.cat([weights[f"{name}.weight"].square().sum((2, 3)).flatten() for name in kept])
    keeper = GrowthKeeper(net, kept, 4)
    keeper.finish()
    norms[row(kept)] = -1
    assert set(keeper.pool.fixed_DM[0].nonzero().flatten().tolist()) == set(norms.topk(4).indices.tolist())


def test_what_is_added_does_not_change_any_more() -> None:
    net, kept = opened()
    keeper = GrowthKeeper(net, kept, 4)
    assert keeper.finish()
    assert not keeper.finish()
    assert not keeper.advance(300, 0.9)
    with torch.no_grad():
        assert net.switches is not None
        net.switches.scores_DM.fill_(-1.0)
    assert keeper.usage().kernels == 4


def test_more_than_there_is_adds_all() -> None:
    net, kept = opened()
    keeper = GrowthKeeper(net, kept, 10 * TOTAL)
    keeper.finish()
    assert keeper.usage().kernels == int((~row(kept)).sum())


def test_nothing_may_be_added() -> None:
    net, kept = opened()
    keeper = GrowthKeeper(net, kept, 0)
    assert not keeper.is_final()
    assert keeper.finish()
    assert keeper.is_final()
    assert keeper.usage().kernels == 0
    assert torch.equal(keeper.pool.open_DM[0], row(kept))
