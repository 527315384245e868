"""The ranking of switches: worth against a loop over kernels, one switch per layer, and the schedule of limits."""

import numpy as np
import pytest
import torch
from torch import nn

from prunus.backbone.probe import probe_network
from prunus.backbone.zoo import Backbone
from prunus.budgets.limits import Limits
from prunus.budgets.ranking import Ranking
from prunus.budgets.switch_costs import switch_costs
from prunus.granularity import Granularity
from prunus.images import Preprocess
from prunus.masks.pool import PooledSwitches
from prunus.methods.exact import Options
from prunus.methods.table import adapt

SIZE = 8
DOMAINS = ("a", "b", "c")
GRANULARITIES: tuple[Granularity, ...] = ("kernel", "1x4", "filter", "input_channel")


def _ranking(limits: Limits, granularity: Granularity = "kernel", weights: str = "trained") -> Ranking:
    torch.manual_seed(0)
    network = nn.Sequential(
        *(nn.Conv2d(3, 6, 3, padding=1), nn.BatchNorm2d(6), nn.ReLU(), nn.Conv2d(6, 6, 3, padding=1, groups=3)),
        *(nn.BatchNorm2d(6), nn.ReLU(), nn.Conv2d(6, 8, 1), nn.AdaptiveAvgPool2d(1), nn.Flatten()),
    )
    backbone = Backbone(
        "tiny", network, Preprocess(size=SIZE, resize=SIZE, mean=(0, 0, 0), std=(1, 1, 1)), probe_network(network, SIZE)
    )
    options = Options.model_validate({"granularity": granularity, "weights": weights})
    net = adapt(backbone, dict.fromkeys(DOMAINS, ("x", "y")), "exact", 0, options)
    with torch.no_grad():
        for parameter in net.adapter_list.parameters():
            parameter.add_(torch.randn(parameter.shape) * 0.1)
    assert isinstance(net.switches, PooledSwitches)
    costs = switch_costs(net.switches.layout, backbone.probe.positions, len(DOMAINS), "float32", torch.device("cpu"))
    return Ranking(net, net.switches, limits, costs)


@pytest.mark.parametrize("weights", ["trained", "frozen"])
@pytest.mark.parametrize("granularity", GRANULARITIES)
def test_the_worth_of_a_switch_is_the_squared_norm_of_its_weights(granularity: Granularity, weights: str) -> None:
    ranking = _ranking(Limits(DOMAINS, kernels=10), granularity, weights)
    layout, net = ranking.pool.layout, ranking.net
    owner = layout.spread(torch.arange(layout.num_switches)[None])[0].tolist()
    expected = [0.0] * layout.num_switches
    kernel = 0
    for conv in layout.convs:
        if weights == "trained":
            weight = net.adapters[0].tensors(0, {})[f"{conv.name}.weight"]
            assert not torch.equal(weight, net.network.get_parameter(f"{conv.name}.weight"))
        else:
            weight = net.network.get_parameter(f"{conv.name}.weight")
        for row in weight.detach().numpy().astype(np.float64):
            for square in row:
                expected[owner[kernel]] += float((square**2).sum())
                kernel += 1
    assert ranking.worth().tolist() == pytest.approx(expected)


@pytest.mark.parametrize("granularity", GRANULARITIES)
def test_the_floor_is_the_most_valuable_switch_of_every_layer(granularity: Granularity) -> None:
    ranking = _ranking(Limits(DOMAINS, kernels=10), granularity)
    worth, floor = ranking.worth(), ranking.floor()
    for layer in range(3):
        is_own = ranking.costs.layer == layer
        assert int(floor[is_own].sum()) == 1
        assert bool(floor[is_own][worth[is_own].argmax()])


def test_of_equally_valuable_switches_the_first_is_the_floor() -> None:
    ranking = _ranking(Limits(DOMAINS, kernels=10))
    with torch.no_grad():
        for tensor in ranking.net.adapters[0].parameters():
            tensor.zero_()
    firsts = [int((ranking.costs.layer == layer).nonzero()[0]) for layer in range(3)]
    assert ranking.floor().nonzero()[:, 0].tolist() == firsts


@pytest.mark.parametrize("done", [0.0, 0.25, 0.5, 0.9, 1.0])
def test_kernels_leave_fast_at_first_then_ever_slower(done: float) -> None:
    ranking = _ranking(Limits(DOMAINS, kernels=20))
    total = ranking.pool.layout.num_switches
    expected = int(20 + (total - 20) * (1 - done) ** 3 + 1e-9)
    opened = ranking.opened(done=done)
    assert opened.sum(1).tolist() == [expected] * 3
    worth = ranking.worth().masked_fill(ranking.floor(), float("inf"))
    assert opened[0].nonzero()[:, 0].tolist() == sorted(worth.argsort(descending=True)[:expected].tolist())


def test_a_scale_of_the_limits_opens_more_or_less() -> None:
    ranking = _ranking(Limits(DOMAINS, kernels=20))
    counts = [int(ranking.opened(scale).any(0).sum()) for scale in (0.5, 1.0, 1.5, 100.0)]
    assert counts == [10, 20, 30, ranking.pool.layout.num_switches]


@pytest.mark.parametrize("granularity", GRANULARITIES)
def test_opened_switches_cost_no_more_than_any_limit(granularity: Granularity) -> None:
    ranking = _ranking(Limits(DOMAINS, kernels=40, weights=200, bytes=900, macs=(9000, None, 6000)), granularity)
    opened = ranking.opened()
    costs = ranking.costs
    for cost, limit in ((costs.kernels, 40), (costs.weights, 200), (costs.bytes, 900)):
        assert float((opened.any(0) * cost).sum()) <= limit
    macs = (opened * costs.macs).sum(1)
    assert macs[0] <= 9000 and macs[2] <= 6000
    assert macs[2] < macs[1]
    assert bool((opened[1] | ~opened).all())  # the domain without a limit may use all


def test_the_part_of_a_file_that_no_switch_changes_is_subtracted() -> None:
    ranking = _ranking(Limits(DOMAINS, bytes=900))
    fixed = Ranking(ranking.net, ranking.pool, ranking.limits, ranking.costs, fixed_bytes=400.0)
    assert float((fixed.opened()[0] * ranking.costs.bytes).sum()) <= 500
    assert float((ranking.opened()[0] * ranking.costs.bytes).sum()) > 800


def test_a_domain_prefers_what_it_has_on_when_its_macs_are_scarce() -> None:
    ranking = _ranking(Limits(DOMAINS, macs=(8000, None, None)))
    on = torch.arange(ranking.pool.layout.num_switches) % 2 == 0
    ranking.pool.scores_DM.data[0] = torch.where(on, 1.0, -1.0)
    opened = ranking.opened()[0]
    free = ~ranking.floor()
    assert float((opened & on & free).sum()) > 5 * float((opened & ~on & free).sum())


def test_what_is_closed_stays_closed() -> None:
    ranking = _ranking(Limits(DOMAINS, kernels=20))
    closed = ranking.opened()
    ranking.pool.restrict(~closed)
    assert not bool((ranking.opened(100.0) & closed).any())
