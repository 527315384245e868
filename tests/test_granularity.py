"""The blocks of kernels that share a switch."""

import pytest

from prunus.granularity import BLOCKS, block_grid, unit_name


@pytest.mark.parametrize(
    ("shape", "expected"),
    [
        ((8, 16, 1, 1), (8, 4)),
        ((8, 17, 1, 1), (8, 5)),  # the last block is shorter
        ((8, 3, 1, 1), (8, 1)),
        ((8, 1, 1, 1), (8, 1)),
        ((8, 16, 3, 3), (8, 16)),
        ((8, 16, 1, 3), (8, 16)),
        ((8, 1, 3, 3), (8, 1)),  # depthwise
    ],
)
def test_blocks_of_four_inputs_are_in_pointwise_convolutions(
    shape: tuple[int, int, int, int], expected: tuple[int, int]
) -> None:
    assert block_grid("1x4", shape) == expected


def test_every_granularity_covers_every_kernel_once() -> None:
    for granularity, block in BLOCKS.items():
        for shape in ((5, 7, 1, 1), (6, 1, 3, 3), (4, 4, 3, 3)):
            for size, count, length in zip(block(shape), block_grid(granularity, shape), shape, strict=False):
                assert (count - 1) * size < length <= count * size, granularity


def test_a_unit_is_named_in_words() -> None:
    assert unit_name("filter") == "filter"
    assert unit_name("1x4") == "kernel or block of four"
