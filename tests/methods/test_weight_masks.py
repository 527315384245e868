"""Masks over weights: their storage, and what their coefficients do."""

import pytest
import torch

from prunus.masks.layout import convolutions
from prunus.methods.weight_masks import affine
from tests.makers.method_costs import nine_domain_costs, wrn28


@pytest.mark.parametrize(("method", "coefficients"), [("weight_transform", 3), ("affine_masks", 4)])
def test_affine_masks_cost_slightly_more_than_a_bit_per_weight(method: str, coefficients: int) -> None:
    convs = convolutions(wrn28().network)
    weights = sum(conv.num_weights for conv in convs)
    expected = 1 + 9 * (weights + 32 * coefficients * len(convs)) / (32 * weights)
    assert nine_domain_costs(method).params_ratio(with_source=True) == pytest.approx(expected)


def test_the_first_coefficient_alone_leaves_the_weights_unchanged() -> None:
    weight = torch.randn(4, 3, 3, 3)
    mask = torch.rand_like(weight).round()
    for count in (3, 4):
        identity = torch.tensor([1.0] + [0.0] * (count - 1))
        torch.testing.assert_close(affine(weight, mask, identity), weight)


def test_the_fourth_coefficient_scales_the_masked_weights() -> None:
    weight = torch.tensor([2.0, 3.0])
    mask = torch.tensor([1.0, 0.0])
    assert affine(weight, mask, torch.tensor([1.0, 10.0, 100.0])).tolist() == [112.0, 13.0]
    assert affine(weight, mask, torch.tensor([1.0, 10.0, 100.0, 1000.0])).tolist() == [2112.0, 13.0]
