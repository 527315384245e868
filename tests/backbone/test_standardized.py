"""Standardized convolutions become plain ones."""

import pytest
import torch

from prunus.backbone.standardized import bake_standardized
from prunus.masks.layout import switch_layout


@pytest.mark.slow
@pytest.mark.parametrize("name", ["nf_resnet26", "resnetv2_50x1_bit", "nfnet_l0"])
def test_standardized_convolutions_become_plain_ones_that_compute_the_same(name: str) -> None:
    import timm

    torch.manual_seed(0)
    network = timm.create_model(name, pretrained=False, num_classes=0).eval()
    images = torch.randn(1, 3, 64, 64)
    with torch.no_grad():
        expected = network(images)
        found = bake_standardized(network)(images)
    torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-5)
    assert switch_layout(network).num_switches > 0
