"""Sums, products, concatenations and reshapes keep their results, and constants go into what is beside them."""

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from prunus.graph.cut import cut
from prunus.lowering.build import build_graph
from tests.lowering.test_build import assert_same
from tests.makers.masked_networks import draw_tiny
from tests.makers.odd_networks import OddNetwork, Run, mean, odd_net


def _doubled(m: OddNetwork, x: Tensor) -> Tensor:
    y = m.a(x)
    return mean(y + y)


def _numbers(m: OddNetwork, x: Tensor) -> Tensor:
    return mean(3.0 - (m.a(x) * m.scale.reshape(1, -1, 1, 1) + 1) * 0.5 * x.size(2))


def _product_and_sum(m: OddNetwork, x: Tensor) -> Tensor:
    scale = m.scale.reshape(1, -1, 1, 1)
    return mean(m.act(torch.addcmul(2 * scale, scale, m.a(x))))


def _gate(m: OddNetwork, x: Tensor) -> Tensor:
    y = m.a(x)
    return mean(torch.sigmoid(m.c(y.mean((2, 3), keepdim=True))) * y)


def _viewed(m: OddNetwork, x: Tensor) -> Tensor:
    y: Tensor = m.c(m.a(x))
    return y.view(y.size(0), -1)


CASES: dict[str, tuple[Run, str]] = {
    "x + x": (_doubled, "conv add mean"),
    "numbers and constants go into the convolution": (_numbers, "conv mean"),
    "a square": (lambda m, x: mean(m.c(m.a(x) ** 2)), "conv mul conv mean"),
    "a power of two": (lambda m, x: mean(m.c(m.a(x).pow(2.0))), "conv mul conv mean"),
    "a square by name": (lambda m, x: mean(m.c(torch.square(m.a(x)))), "conv mul conv mean"),
    "a difference": (lambda m, x: mean(m.act(m.a(x)) - m.c(m.a(x))), "conv conv conv mean"),
    "a number minus a value": (lambda m, x: mean(m.act(2.0 - m.a(x))), "conv mean"),
    "a value minus a number": (lambda m, x: mean(m.act(m.a(x) - 0.25)), "conv mean"),
    "a product and a sum at once": (_product_and_sum, "conv mean"),
    "one pixel for all, on the left": (_gate, "conv mean conv mul mean"),
    "flattened pixels": (lambda m, x: m.c(m.a(x)).flatten(start_dim=1), "conv conv"),
    "viewed pixels": (_viewed, "conv conv"),
    "squeezed pixels": (lambda m, x: m.a(x).mean((2, 3), keepdim=True).squeeze(3).squeeze(2), "conv mean"),
    "appended zeros": (lambda m, x: mean(m.wide(F.pad(m.a(x), (0, 0, 0, 0, 0, 4)))), "conv append_zeros conv mean"),
    "nothing appended": (lambda m, x: mean(F.pad(m.a(x), (0, 0, 0, 0, 0, 0))), "conv mean"),
    "one part joined": (lambda m, x: mean(torch.cat([m.a(x)], 1)), "conv mean"),
    "two parts joined by keyword": (
        lambda m, x: mean(m.wide(torch.cat(tensors=(m.a(x), m.a(x)), dim=-3))),
        "conv conv cat conv mean",
    ),
}


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("mode", ["everything on", "dead channels"])
def test_arithmetic_keeps_its_results(name: str, mode: str) -> None:
    run, operations = CASES[name]
    _, net = odd_net(run)
    draw_tiny(net, mode, torch.Generator().manual_seed(len(name)))
    network = cut(build_graph(net))
    assert " ".join(operation.op for operation in network.graph) == operations
    assert_same(net, network)
