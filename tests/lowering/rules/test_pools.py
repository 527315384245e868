"""Pools and means keep their results, whatever their windows."""

from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from prunus.graph.cut import cut
from prunus.lowering.build import build_graph
from tests.lowering.test_build import assert_same
from tests.makers.masked_networks import draw_tiny
from tests.makers.odd_networks import OddNetwork, odd_net


def _all_kinds(m: OddNetwork, x: Tensor) -> Tensor:
    y = F.max_pool2d(m.a(x), 3, 2, 1)
    y = F.avg_pool2d(y, 3, 2, 1, True, True)
    return F.adaptive_avg_pool2d(F.avg_pool2d(y, 2, ceil_mode=True, count_include_pad=False), 1).flatten(1)


def test_pools_of_all_kinds() -> None:
    _, net = odd_net(_all_kinds)
    draw_tiny(net, "dead in one domain", torch.Generator().manual_seed(1))
    network = cut(build_graph(net))
    assert [operation.op for operation in network.graph] == ["conv", "pool", "pool", "pool", "mean"]
    assert_same(net, network)


POOLS: dict[str, tuple[Callable[[Tensor], Tensor], str]] = {
    "max pool layer": (nn.MaxPool2d(3, 2, 1), "pool"),
    "max pool that rounds up": (nn.MaxPool2d(2, ceil_mode=True), "pool"),
    "average with counted padding": (nn.AvgPool2d(3, 2, 1), "pool"),
    "average without": (nn.AvgPool2d(3, 2, 1, count_include_pad=False), "pool"),
    "average function that counts padding unless told": (lambda x: F.avg_pool2d(x, 3, 2, 1), "pool"),
    "average function without": (lambda x: F.avg_pool2d(x, 3, 2, 1, count_include_pad=False), "pool"),
    "adaptive average to three pixels": (nn.AdaptiveAvgPool2d((3, None)), "pool"),
    "adaptive average to one pixel": (nn.AdaptiveAvgPool2d(1), "mean"),
    "adaptive maximum": (nn.AdaptiveMaxPool2d(3), "pool"),
    "mean of rows": (lambda x: x.mean(-1), "pool"),
    "mean of columns": (lambda x: x.mean(2, keepdim=True), "pool"),
    "sum of all pixels": (lambda x: x.sum((2, 3)), "mean affine"),
    "sum of rows": (lambda x: torch.sum(x, dim=3), "pool affine"),
    "mean by mean": (lambda x: x.mean(-1).mean(-1), "pool mean"),
    "mean by keyword": (lambda x: x.mean(dim=(-1, -2), keepdim=True), "mean"),
}


@pytest.mark.parametrize("name", POOLS)
def test_a_pool_keeps_its_results(name: str) -> None:
    pool, operations = POOLS[name]
    if isinstance(pool, nn.Module):
        _, net = odd_net(lambda m, x: m.act(m.a(x)).flatten(1), pool)
    else:
        _, net = odd_net(lambda m, x: pool(m.a(x)).flatten(1))
    draw_tiny(net, "dead channels", torch.Generator().manual_seed(2))
    network = build_graph(net)
    assert [node.op for node in network.graph] == ["conv", *operations.split()]
    assert_same(net, network)
    assert_same(net, cut(network))
