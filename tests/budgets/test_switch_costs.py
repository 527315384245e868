"""The cost of every switch against a count, kernel by kernel, of what it turns off."""

from math import prod

import pytest
import torch
from torch import nn

from prunus.arrays import DType
from prunus.backbone.probe import probe_network
from prunus.budgets.switch_costs import switch_costs
from prunus.masks.layout import switch_layout

SIZE = 8
ITEM = {"float32": 4, "float16": 2, "bfloat16": 2}


def _network() -> nn.Sequential:
    """A stem, a depthwise, a grouped and two pointwise convolutions, one of them strided."""
    return nn.Sequential(
        nn.Conv2d(3, 6, 3, padding=1),
        nn.Conv2d(6, 6, 3, groups=6),
        nn.Conv2d(6, 4, (1, 3), groups=2),
        nn.Conv2d(4, 6, 1, stride=2),
        nn.Conv2d(6, 5, 1),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
    )


@pytest.mark.parametrize("dtype", ITEM)
@pytest.mark.parametrize("granularity", ["kernel", "1x4", "filter", "input_channel"])
def test_a_switch_costs_what_its_kernels_cost(granularity: str, dtype: DType) -> None:
    network = _network()
    layout = switch_layout(network, granularity)
    positions = probe_network(network, SIZE).positions
    costs = switch_costs(layout, positions, 3, dtype, torch.device("cpu"))
    assert costs.kernels.shape == (layout.num_switches,)
    owner = layout.spread(torch.arange(layout.num_switches)[None])[0].tolist()  # the switch of every kernel
    expected = torch.zeros(5, layout.num_switches, dtype=torch.float64)
    kernel = 0
    for number, conv in enumerate(layout.convs):
        module = network.get_submodule(conv.name)
        assert isinstance(module, nn.Conv2d)
        for _ in range(prod(module.weight.shape[:2])):
            area = module.weight[0, 0].numel()
            row = [1, area, ITEM[dtype] * area + 3 / 8, area * positions[conv.name], 0]
            expected[:, owner[kernel]] += torch.tensor(row, dtype=torch.float64)
            expected[4, owner[kernel]] = number
            kernel += 1
    found = torch.stack([costs.kernels, costs.weights, costs.bytes, costs.macs, costs.layer.double()])
    torch.testing.assert_close(found, expected)


def test_all_switches_together_cost_the_whole_network() -> None:
    network = _network()
    images = torch.zeros(1, 3, SIZE, SIZE)
    macs = 0
    for module in network:
        if isinstance(module, nn.Conv2d):
            output = module(images)
            macs += output[0].numel() * module.weight[0].numel()
            images = output
    layout = switch_layout(network)
    costs = switch_costs(layout, probe_network(network, SIZE).positions, 1, "float32", torch.device("cpu"))
    assert int(costs.macs.sum()) == macs
    assert int(costs.weights.sum()) == sum(m.weight.numel() for m in network if isinstance(m, nn.Conv2d))


def test_a_convolution_that_never_runs_costs_nothing() -> None:
    layout = switch_layout(_network())
    costs = switch_costs(layout, {"0": 64}, 1, "float32", torch.device("cpu"))
    for row in (costs.kernels, costs.weights, costs.bytes, costs.macs):
        assert bool((row[costs.layer == 0] > 0).all())
        assert float(row[costs.layer > 0].sum()) == 0
