"""Windows are counted as torch counts them, in every small case."""

from itertools import product

import pytest
import torch
import torch.nn.functional as F

from prunus.graph.windows import pixels_per_window, window_count, window_count_ceil

CASES = [
    (side, kernel, stride, pad)
    for side, kernel, stride in product(range(1, 8), range(1, 5), range(1, 5))
    for pad in range(kernel // 2 + 1)
    if side + 2 * pad >= kernel
]


@pytest.mark.parametrize("ceil", [False, True])
def test_pools_have_as_many_windows_as_in_torch(ceil: bool) -> None:
    count = window_count_ceil if ceil else window_count
    for side, kernel, stride, pad in CASES:
        expected = F.max_pool1d(torch.zeros(1, 1, side), kernel, stride, pad, ceil_mode=ceil).shape[2]
        assert count(side, kernel, stride, (pad, pad)) == expected, (side, kernel, stride, pad)


@pytest.mark.parametrize("counts_pads", [False, True])
def test_means_divide_by_as_many_pixels_as_in_torch(counts_pads: bool) -> None:
    for side, kernel, stride, pad in CASES:
        means = F.avg_pool1d(torch.ones(1, 1, side), kernel, stride, pad, count_include_pad=counts_pads)[0, 0]
        sums = F.avg_pool1d(torch.ones(1, 1, side), kernel, stride, pad)[0, 0] * kernel
        counted = (pad, pad) if counts_pads else (0, 0)
        pixels = pixels_per_window(side, len(means), kernel, stride, (pad, pad), counted)
        torch.testing.assert_close(torch.from_numpy(pixels).float() * means, sums)
