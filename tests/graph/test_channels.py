"""What is known about channels: constants, readers, and what must stay together."""

from collections.abc import Callable

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from prunus.graph.channels import ChannelFlow
from prunus.lowering.build import build_graph
from prunus.masks.network import MultiDomainNet
from tests.makers.masked_networks import tiny_net


def _flow(net: MultiDomainNet, off: dict[str, tuple[int | slice, ...]]) -> ChannelFlow:
    """Switch kernels off, (domain, output, input), and follow the channels."""
    assert net.switches is not None
    with torch.no_grad():
        views = net.switches.layout.views(net.switches.scores_DM)
        for layer, kernels in off.items():
            views[layer][kernels] = -1
    return ChannelFlow(build_graph(net))


ALL = slice(None)
Between = Callable[[Tensor], Tensor]


def test_a_dead_filter_is_a_constant_that_goes_through_norm_and_activation() -> None:
    _, net = tiny_net(nn.Sequential(nn.Conv2d(3, 2, 3, bias=False), nn.BatchNorm2d(2), nn.ReLU(), nn.Flatten()))
    with torch.no_grad():
        for domain, bias in (("a", 0.75), ("b", -0.5)):
            net.tensors(domain)["1.bias"][1] = bias
    result = _flow(net, {"0": (ALL, 1)}).values[1]
    assert result.constant.tolist() == [[False, True]] * 2
    np.testing.assert_allclose(
        result.values, np.array([[0.0, 0.75], [0.0, 0.0]])
    )  # the activation makes the negative one zero
    assert result.zero.tolist() == [[False, False], [False, True]]


def test_padding_ends_a_constant_but_not_a_zero() -> None:
    class Chain(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.a = nn.Conv2d(3, 2, 1)
            self.b = nn.Conv2d(2, 1, 3, padding=1)

        def forward(self, x: Tensor) -> Tensor:
            return self.b(F.relu(self.a(x))).flatten(1)  # type: ignore[no-any-return]

    for bias, is_constant in ((0.5, False), (-0.5, True)):
        network = Chain()
        with torch.no_grad():
            assert network.a.bias is not None
            network.a.bias.fill_(bias)
        flow = _flow(tiny_net(network)[1], {"a": (ALL,)})
        assert flow.values[1].constant.all()
        assert bool(flow.values[2].constant.all()) is is_constant


class _Gated(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.a, self.gate = nn.Conv2d(3, 4, 1), nn.Conv2d(4, 4, 1)

    def forward(self, x: Tensor) -> Tensor:
        y = F.relu(self.a(x))
        return (y * torch.sigmoid(self.gate(y.mean((2, 3), keepdim=True)))).mean((2, 3))


def test_a_zero_absorbs_its_factor_in_its_domain_alone() -> None:
    network = _Gated()
    with torch.no_grad():
        assert network.a.bias is not None
        network.a.bias[1] = -1.0
    flow = _flow(tiny_net(network)[1], {"a": (0, 1)})  # output 1 is zero in the first domain
    *_, gate, product, _features = flow.values
    assert product.zero.tolist() == [[False, True, False, False], [False] * 4]
    assert gate.read.tolist() == [[True, False, True, True], [True] * 4]
    assert not flow.used["gate"][0, 1].any()
    assert flow.used["gate"][1].all()
    assert flow.kept(1).tolist() == [0, 1, 2, 3]


def test_summed_values_keep_or_lose_a_channel_together() -> None:
    class Residual(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.a, self.b, self.c = nn.Conv2d(3, 4, 1), nn.Conv2d(4, 4, 1), nn.Conv2d(4, 2, 1)

        def forward(self, x: Tensor) -> Tensor:
            y = F.relu(self.a(x))
            return self.c(y + F.relu(self.b(y))).mean((2, 3))  # type: ignore[no-any-return]

    flow = _flow(tiny_net(Residual())[1], {"a": (ALL, 1), "c": (ALL, ALL, 2), "b": (ALL, ALL, 2)})
    assert [flow.kept(value).tolist() for value in (1, 2, 3)] == [[0, 1, 3]] * 3


def test_a_layer_that_runs_twice_keeps_the_same_channels_in_both_runs() -> None:
    class Twice(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.a, self.b, self.c = nn.Conv2d(3, 4, 1), nn.Conv2d(4, 4, 1), nn.Conv2d(4, 2, 1)

        def forward(self, x: Tensor) -> Tensor:
            y = F.relu(self.b(F.relu(self.a(x))))
            return self.c(F.relu(self.b(y))).mean((2, 3))  # type: ignore[no-any-return]

    flow = _flow(tiny_net(Twice())[1], {"a": (ALL, 3), "c": (ALL, ALL, 1)})
    assert flow.kept(2).tolist() == flow.kept(3).tolist()
    assert flow.kept(1).tolist() == flow.kept(2).tolist()


@pytest.mark.parametrize(
    ("between", "width", "kept"),
    [
        (lambda y: y * 2.0 + 1, 4, [0, 3]),
        (lambda y: torch.cat((y, y.relu()), 1), 8, [0, 3]),
        (lambda y: F.max_pool2d(y, 2), 4, [0, 3]),
        (lambda y: F.avg_pool2d(y, 3, 1, 1), 4, [0, 1, 2, 3]),  # zeros in the padding change a constant
        (lambda y: F.avg_pool2d(y, 3, 1, 1, count_include_pad=False), 4, [0, 3]),
        (lambda y: F.pad(y, (0, 0, 0, 0, 0, 2)), 6, [0, 3]),
    ],
)
def test_constants_are_followed_to_the_next_convolution(between: Between, width: int, kept: list[int]) -> None:
    class Followed(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first, self.second = nn.Conv2d(3, 4, 3), nn.Conv2d(width, 4, 1)

        def forward(self, x: Tensor) -> Tensor:
            return self.second(between(self.first(x))).flatten(1)  # type: ignore[no-any-return]

    torch.manual_seed(0)
    flow = _flow(tiny_net(Followed())[1], {"first": (ALL, slice(1, 3)), "second": (ALL, 3)})
    assert flow.kept(1).tolist() == kept
    assert flow.kept(len(flow.values) - 1).tolist() == [0, 1, 2]


def test_a_norm_over_channels_holds_all_of_them() -> None:
    network = nn.Sequential(nn.Conv2d(3, 4, 8), nn.Flatten(), nn.LayerNorm(4))
    flow = _flow(tiny_net(network)[1], {"0": (ALL, 1)})
    assert flow.kept(1).tolist() == [0, 1, 2, 3]
