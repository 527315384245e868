"""Modulation: two matrices per convolution whose product starts at one."""

import pytest
import torch
from torch import nn

from prunus.masks.layout import convolutions
from prunus.methods.modulation import Modulation
from tests.makers.method_costs import nine_domain_costs, wrn28


def test_modulation_costs_its_two_matrices() -> None:
    convs = convolutions(wrn28().network)
    added = 9 * sum(min(8, c.out_channels, c.in_channels) * (c.out_channels + c.in_channels) for c in convs)
    assert nine_domain_costs("modulation").params_ratio() == pytest.approx(
        1 + added / sum(c.num_weights for c in convs)
    )


def test_the_rank_is_at_most_the_number_of_channels_and_the_start_is_the_backbone() -> None:
    network = nn.Sequential(nn.Conv2d(3, 8, 3, bias=False))
    part = Modulation(network, num_domains=2, rank=5)
    assert [tuple(matrix.shape) for matrix in part.parameters()] == [(8, 3)] * 2 + [(3, 3)] * 2
    frozen = {"0.weight": torch.randn(8, 3, 3, 3)}
    for domain in range(2):
        torch.testing.assert_close(part.tensors(domain, frozen)["0.weight"], frozen["0.weight"])
