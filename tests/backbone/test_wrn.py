"""The wide residual networks have the size of their formula."""

from itertools import pairwise

import pytest
import torch
from torch import nn

from prunus.backbone.wrn import Block, wrn14_2, wrn28_4


@pytest.mark.parametrize(
    ("name", "blocks", "widths"), [("wrn28_4", 4, [32, 64, 128, 256]), ("wrn14_2", 2, [16, 32, 64, 128])]
)
def test_bundled_networks_have_the_size_their_formula_gives(name: str, blocks: int, widths: list[int]) -> None:
    convs = [m for m in {"wrn28_4": wrn28_4, "wrn14_2": wrn14_2}[name]().modules() if isinstance(m, nn.Conv2d)]
    pairs = pairwise(widths)
    kernels = 3 * widths[0] + sum(old * new + (2 * blocks - 1) * new * new for old, new in pairs)
    assert sum(conv.weight.shape[0] * conv.weight.shape[1] for conv in convs) == kernels
    assert sum(conv.weight.numel() for conv in convs) == 9 * kernels
    assert name != "wrn28_4" or (round(kernels / 1e6, 3), round(9 * kernels / 1e6, 2)) == (0.645, 5.81)


def test_a_block_with_a_stride_halves_the_shortcut_and_pads_its_channels_with_zeros() -> None:
    block = Block(2, 5, stride=2).eval()
    for conv in (block.conv1, block.conv2):
        nn.init.zeros_(conv.weight)
    images = torch.rand(1, 2, 4, 6)
    with torch.no_grad():
        result = block(images)
    assert result.shape == (1, 5, 2, 3)
    torch.testing.assert_close(result[:, :2], nn.functional.avg_pool2d(images, 2))
    assert not result[:, 2:].any()
