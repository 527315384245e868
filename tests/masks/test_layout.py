"""The position of every convolution's switches in the flat row, and what cannot be switched."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

from prunus.errors import BackboneError
from prunus.granularity import BLOCKS
from prunus.masks.layout import ConvShape, SwitchLayout, convolutions, like_weight, resolved, switch_layout

CONVS = (ConvShape("a", 4, 3, (3, 3)), ConvShape("b", 2, 4, (1, 1)))


def test_grouped_depthwise_dilated_strided_and_biased_convolutions_and_linear_layers_all_carry_switches() -> None:
    network = nn.Sequential(
        nn.Conv2d(3, 8, 1, bias=True),
        nn.Conv2d(8, 8, 3, groups=8, padding=1),
        nn.Conv2d(8, 12, 3, groups=4, dilation=2, stride=2),
        nn.Linear(12, 5),
    )
    layout = switch_layout(network)
    shapes = [("0", 8, 3), ("1", 8, 1), ("2", 12, 2), ("3", 5, 12)]
    assert [(c.name, c.out_channels, c.in_channels) for c in layout.convs] == shapes
    assert layout.convs[3].kernel == (1, 1)
    assert layout.num_switches == 24 + 8 + 24 + 60


def test_views_share_memory_with_the_flat_row() -> None:
    layout = SwitchLayout((ConvShape("a", 2, 3, (1, 1)), ConvShape("b", 1, 2, (3, 3))))
    row = torch.arange(8.0)
    views = layout.views(row)
    assert views["a"][..., 0, 0].tolist() == [[0, 1, 2], [3, 4, 5]]
    assert views["b"][..., 0, 0].tolist() == [[6, 7]]
    assert views["b"].data_ptr() == row[6:].data_ptr()


def test_a_convolution_that_standardizes_its_weights_is_refused_by_name() -> None:
    class ScaledStdConv2d(nn.Conv2d):
        pass

    with pytest.raises(BackboneError, match="'0' is a ScaledStdConv2d"):
        switch_layout(nn.Sequential(ScaledStdConv2d(3, 3, 1)))


def test_a_network_without_layers_to_switch_is_refused() -> None:
    with pytest.raises(BackboneError, match="no 2-D convolution or linear layer"):
        switch_layout(nn.Sequential(nn.ReLU()))


@pytest.mark.parametrize(
    ("granularity", "switches"), [("kernel", 60), ("1x4", 15), ("filter", 5), ("input_channel", 12)]
)
def test_the_switches_of_a_linear_layer_are_those_of_a_1x1_convolution(granularity: str, switches: int) -> None:
    linear, conv = nn.Linear(12, 5), nn.Conv2d(12, 5, 1)
    layouts = [switch_layout(nn.Sequential(layer), granularity) for layer in (linear, conv)]
    assert layouts[0] == layouts[1]
    assert layouts[0].num_switches == switches
    row = torch.rand(switches) > 0.5
    mask = layouts[0].views(row)["0"]
    with torch.no_grad():
        conv.weight.copy_(linear.weight[..., None, None] * mask)
        x = torch.randn(2, 12)
        masked = torch.nn.functional.linear(x, linear.weight * like_weight(mask, linear.weight))
        assert torch.allclose(masked, conv(x[..., None, None])[..., 0, 0] - conv.bias, atol=1e-6)


def test_automatic_switches_are_blocks_where_most_weights_are_in_linear_layers() -> None:
    linear = nn.Sequential(nn.Conv2d(3, 8, 4, 4), nn.Flatten(2), nn.Linear(4, 100))
    conv = nn.Sequential(nn.Conv2d(3, 8, 4, 4), nn.Flatten(2), nn.Linear(4, 90))  # 384 weights to 360
    assert [resolved("auto", network) for network in (linear, conv)] == ["1x4", "kernel"]
    assert switch_layout(linear, "auto").granularity == "1x4"
    assert resolved("kernel", linear) == "kernel"


@pytest.mark.parametrize("granularity", BLOCKS)
@given(seed=st.integers(0, 2**31))
def test_gathering_is_the_transpose_of_spreading_over_the_root_of_the_kernels(granularity: str, seed: int) -> None:
    layout = SwitchLayout((ConvShape("a", 4, 3, (3, 3)), ConvShape("b", 2, 6, (1, 1))), granularity)
    kernels = {  # of each switch
        "1x4": [1.0] * 12 + [4.0, 2.0] * 2,
        "filter": [3.0] * 4 + [6.0] * 2,
        "input_channel": [4.0] * 3 + [2.0] * 6,
    }
    roots = torch.tensor(kernels.get(granularity, [1.0] * layout.num_switches), dtype=torch.float64).sqrt()
    generator = torch.Generator().manual_seed(seed)
    rows = torch.randn(2, layout.num_switches, generator=generator, dtype=torch.float64)
    spread = layout.spread(rows)
    gradient = torch.randn(spread.shape, generator=generator, dtype=torch.float64)
    torch.testing.assert_close((spread * gradient).sum(1), (rows * roots * layout.gather(gradient)).sum(1))


def test_a_convolution_knows_its_kernels_and_weights() -> None:
    conv = ConvShape("a", 4, 3, (3, 5))
    assert (conv.num_kernels, conv.kernel_area, conv.num_weights) == (12, 15, 180)


@pytest.mark.parametrize("granularity", BLOCKS)
def test_switches_broadcast_to_the_weights_of_their_convolution(granularity: str) -> None:
    layout = SwitchLayout(CONVS, granularity)
    views = layout.views(torch.zeros(layout.num_switches))
    for conv in CONVS:
        weight = torch.zeros(conv.out_channels, conv.in_channels, *conv.kernel)
        assert (weight * views[conv.name]).shape == weight.shape


@pytest.mark.parametrize("granularity", ["filter", "input_channel"])
def test_spreading_repeats_a_switch_for_each_of_its_kernels(granularity: str) -> None:
    layout = SwitchLayout(CONVS[:1], granularity)
    row = torch.arange(float(layout.num_switches))[None]
    spread = layout.spread(row).reshape(4, 3)
    expected = row.reshape(4, 1).expand(4, 3) if granularity == "filter" else row.reshape(1, 3).expand(4, 3)
    assert torch.equal(spread, expected)


def test_four_inputs_of_an_output_share_a_switch_in_pointwise_convolutions_only() -> None:
    network = nn.Sequential(
        nn.Conv2d(3, 8, 3), nn.Conv2d(8, 8, 3, groups=8), nn.Conv2d(8, 10, 1), nn.Conv2d(10, 2, 1, groups=2)
    )
    layout = switch_layout(network, "1x4")
    assert [layout.shape(conv)[:2] for conv in layout.convs] == [(8, 3), (8, 1), (10, 2), (2, 2)]
    row = torch.arange(layout.num_switches)
    assert layout.views(row)["0"].flatten().tolist() == list(range(24))
    blocks = layout.views(row)["2"][..., 0, 0]
    assert blocks[:2].tolist() == [[32] * 4 + [33] * 4, [34] * 4 + [35] * 4]
    assert layout.views(row)["3"][..., 0, 0].tolist() == [[52] * 4 + [53], [54] * 4 + [55]]  # five inputs a group
    assert layout.spread(row[None])[0, -10:].tolist() == [52, 52, 52, 52, 53, 54, 54, 54, 54, 55]


def test_a_network_without_pointwise_convolutions_has_the_switches_of_its_kernels() -> None:
    network = nn.Sequential(nn.Conv2d(3, 8, 3), nn.Conv2d(8, 8, 3, groups=8), nn.Conv2d(8, 4, (1, 3)))
    blocks, kernels = switch_layout(network, "1x4"), switch_layout(network, "kernel")
    rows = torch.randn(2, kernels.num_switches)
    assert blocks.num_switches == kernels.num_switches
    assert torch.equal(blocks.spread(rows), rows)
    assert torch.equal(blocks.gather(rows), rows)
    for name, view in kernels.views(rows).items():
        assert torch.equal(blocks.views(rows)[name], view)


def test_switches_count_and_touch_the_kernels_under_them() -> None:
    layout = SwitchLayout((ConvShape("a", 2, 6, (1, 1)), ConvShape("b", 1, 2, (3, 3))), "1x4")
    ones = {conv.name: torch.ones(conv.out_channels, conv.in_channels) for conv in layout.convs}
    assert layout.totals(ones).tolist() == [4, 2, 4, 2, 1, 1]
    some = torch.zeros(2, 6, dtype=torch.bool)
    some[0, 1] = some[0, 3] = some[1, 5] = True
    touched = layout.touching({"a": some, "b": torch.tensor([[False, True]])})
    assert touched.tolist() == [True, False, False, True, False, True]


@pytest.mark.parametrize(
    "layer",
    [nn.Conv3d(3, 3, 1), nn.ConvTranspose2d(3, 3, 1), nn.ConvTranspose1d(3, 3, 1)],
    ids=lambda m: type(m).__name__,
)
def test_other_kinds_of_convolutions_are_refused_by_name(layer: nn.Module) -> None:
    with pytest.raises(BackboneError, match=f"'1' is a {type(layer).__name__}, which is unsupported"):
        convolutions(nn.Sequential(nn.Conv2d(3, 3, 1), layer))
