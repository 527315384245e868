"""Every activation of torch and timm becomes the graph's own of the same name."""

from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from prunus.lowering.build import build_graph
from prunus.lowering.rules.activations import layer_activation
from tests.lowering.test_build import assert_same
from tests.makers.odd_networks import mean, odd_net

ACTIVATIONS: list[Callable[[Tensor], Tensor]] = [
    *(nn.ReLU6(), nn.Hardtanh(0, 6), nn.LeakyReLU(0.3), nn.ELU(0.7), nn.SiLU(), nn.GELU(), nn.GELU("tanh"), nn.Mish()),
    *(nn.Hardswish(), nn.Hardsigmoid(), nn.Sigmoid(), nn.Tanh(), F.relu6, F.elu, F.silu, F.gelu, F.mish, F.hardswish),
    *(F.hardsigmoid, torch.tanh, lambda x: F.hardtanh(x, 0, 6), lambda x: F.gelu(x, approximate="tanh")),
    *(lambda x: F.leaky_relu(x, negative_slope=0.2), lambda x: x.sigmoid(), lambda x: x.relu()),
    *(F.relu_, F.elu_, lambda x: F.leaky_relu_(x, 0.2)),
]


@pytest.mark.parametrize("index", range(len(ACTIVATIONS)))
def test_every_activation_is_the_one_that_it_was(index: int) -> None:
    activation = ACTIVATIONS[index]
    if isinstance(activation, nn.Module):
        _, net = odd_net(lambda m, x: mean(m.act(m.norm(m.a(x) * 9))), activation)
    else:
        _, net = odd_net(lambda m, x: mean(activation(m.norm(m.a(x) * 9))))
    network = build_graph(net)
    assert [operation.op for operation in network.graph] == ["conv", "mean"]
    assert_same(net, network)


@pytest.mark.parametrize(
    ("name", "expected"),
    [("Swish", "silu"), ("HardSwish", "hard_swish"), ("HardSigmoid", "hard_sigmoid"), ("GELUTanh", "gelu_tanh")],
)
def test_classes_of_timm_are_known_by_their_names(name: str, expected: str) -> None:
    layer = type(name, (nn.Module,), {})()
    assert layer_activation(layer) == (expected, 0.0)
    assert layer_activation(type(f"Odd{name}", (nn.Module,), {})()) is None


def test_settings_are_read_from_the_layer() -> None:
    assert layer_activation(nn.LeakyReLU(0.125)) == ("leaky_relu", 0.125)
    assert layer_activation(nn.ELU(0.5)) == ("elu", 0.5)
    assert layer_activation(nn.Hardtanh(-1, 1)) is None
