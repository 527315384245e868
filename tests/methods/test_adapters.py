"""Residual adapters: their storage, the layers they adapt, and the alignment of their 1x1 kernels."""

import pytest
import torch
from torch import Tensor, nn

from prunus.methods.adapters import ParallelAdapters, adapted_convs
from tests.makers.method_costs import nine_domain_costs


@pytest.mark.parametrize("method", ["series_adapters", "parallel_adapters"])
def test_residual_adapters_are_within_five_percent_of_the_published_two(method: str) -> None:
    assert nine_domain_costs(method).params_ratio(with_source=True) == pytest.approx(2.0, rel=0.05)


def test_only_convolutions_larger_than_one_pixel_are_adapted_unless_there_are_none() -> None:
    assert list(adapted_convs(nn.Sequential(nn.Conv2d(3, 4, 3), nn.Conv2d(4, 4, 1)))) == ["0"]
    assert list(adapted_convs(nn.Sequential(nn.Conv2d(3, 4, 1), nn.Conv2d(4, 4, 1)))) == ["0", "1"]


@pytest.mark.parametrize("padding", [0, 1, 2, "same", "valid"])
@pytest.mark.parametrize(("kernel", "stride", "dilation"), [(3, 1, 1), (5, 2, 1), (3, 2, 2)])
def test_a_parallel_adapter_reads_the_pixels_at_the_centres_of_the_kernels(
    padding: int | str, kernel: int, stride: int, dilation: int
) -> None:
    stride = 1 if padding == "same" else stride
    conv = nn.Conv2d(1, 1, kernel, stride, padding, dilation, bias=False)
    adapters = ParallelAdapters(nn.Sequential(conv), num_domains=1)
    with torch.no_grad():
        conv.weight.zero_()
        conv.weight[..., (kernel - 1) // 2, (kernel - 1) // 2] = 1  # a convolution that picks its own centre
        for weight in adapters.parameters():
            weight.fill_(1)
        image = torch.randn(2, 1, 11, 10)
        output: Tensor = conv(image)
        torch.testing.assert_close(adapters.branches(0)["0"](image, output), 2 * output)
