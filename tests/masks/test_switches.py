"""Switches: thresholds, gradients, and where each convolution's lie."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

from prunus.errors import BackboneError
from prunus.masks.binarize import binarize
from prunus.masks.layout import GRANULARITIES, ConvShape, SwitchLayout, switch_layout
from prunus.masks.switches import Switches


@given(st.lists(st.floats(-1e3, 1e3, width=32), min_size=1, max_size=50))
def test_binarized_scores_are_exactly_zero_or_one_and_pass_gradients_unchanged(values: list[float]) -> None:
    scores = torch.tensor(values, requires_grad=True)
    upstream = torch.arange(1.0, len(values) + 1)
    mask = binarize(scores)
    (mask * upstream).sum().backward()  # type: ignore[no-untyped-call]
    assert mask.tolist() == [float(value > 0) for value in scores.tolist()]
    assert scores.grad is not None
    assert scores.grad.tolist() == upstream.tolist()


def test_everything_is_on_at_the_start() -> None:
    switches = Switches(SwitchLayout((ConvShape("c", 4, 3, (3, 3)),)), num_domains=2)
    assert bool(switches.masks().all())
    assert switches.scores_DM.flatten().tolist() == pytest.approx([1e-3] * 24)


def test_grouped_depthwise_dilated_strided_and_biased_convolutions_all_carry_switches() -> None:
    network = nn.Sequential(
        nn.Conv2d(3, 8, 1, bias=True),
        nn.Conv2d(8, 8, 3, groups=8, padding=1),
        nn.Conv2d(8, 12, 3, groups=4, dilation=2, stride=2),
        nn.Linear(12, 5),
    )
    layout = switch_layout(network)
    assert [(c.name, c.out_channels, c.in_channels) for c in layout.convs] == [("0", 8, 3), ("1", 8, 1), ("2", 12, 2)]
    assert layout.num_switches == 24 + 8 + 24


def test_views_share_memory_with_the_flat_row() -> None:
    layout = SwitchLayout((ConvShape("a", 2, 3, (1, 1)), ConvShape("b", 1, 2, (3, 3))))
    row = torch.arange(8.0)
    views = layout.views(row)
    assert views["a"][..., 0, 0].tolist() == [[0, 1, 2], [3, 4, 5]]
    assert views["b"][..., 0, 0].tolist() == [[6, 7]]
    assert views["b"].data_ptr() == row[6:].data_ptr()


def test_a_switch_off_removes_exactly_its_kernel() -> None:
    layout = SwitchLayout((ConvShape("c", 2, 2, (3, 3)),))
    switches = Switches(layout, num_domains=1)
    with torch.no_grad():
        switches.scores_DM[0, 1] = -1.0  # output 0, input 1
    weight = torch.randn(2, 2, 3, 3)
    masked = switches.tensors(0, {"c.weight": weight})["c.weight"]
    assert masked[0, 1].abs().sum() == 0
    kept = torch.tensor([[True, False], [True, True]])
    assert torch.equal(masked[kept], weight[kept])


def test_gradients_reach_switches_that_are_off() -> None:
    switches = Switches(SwitchLayout((ConvShape("c", 1, 2, (1, 1)),)), num_domains=1)
    with torch.no_grad():
        switches.scores_DM[0, 0] = -1.0
    switches.tensors(0, {"c.weight": torch.tensor([[[[2.0]], [[3.0]]]])})["c.weight"].sum().backward()  # type: ignore[no-untyped-call]
    assert switches.scores_DM.grad is not None
    assert switches.scores_DM.grad.tolist() == [[2.0, 3.0]]


def test_a_convolution_that_standardizes_its_weights_is_refused_by_name() -> None:
    class ScaledStdConv2d(nn.Conv2d):
        pass

    with pytest.raises(BackboneError, match="'0' is a ScaledStdConv2d"):
        switch_layout(nn.Sequential(ScaledStdConv2d(3, 3, 1)))


def test_a_network_without_convolutions_is_refused() -> None:
    with pytest.raises(BackboneError, match="no 2-D convolution"):
        switch_layout(nn.Sequential(nn.Linear(3, 3)))


@pytest.mark.parametrize("granularity", GRANULARITIES)
@given(seed=st.integers(0, 2**31))
def test_gathering_is_the_transpose_of_spreading(granularity: str, seed: int) -> None:
    layout = SwitchLayout((ConvShape("a", 4, 3, (3, 3)), ConvShape("b", 2, 4, (1, 1))), granularity)
    generator = torch.Generator().manual_seed(seed)
    rows = torch.randn(2, layout.num_switches, generator=generator, dtype=torch.float64)
    spread = layout.spread(rows)
    gradient = torch.randn(spread.shape, generator=generator, dtype=torch.float64)
    torch.testing.assert_close((spread * gradient).sum(1), (rows * layout.gather(gradient)).sum(1))


@pytest.mark.parametrize(
    ("granularity", "switches", "off"),
    [("kernel", 20, 1), ("filter", 6, 3), ("input_channel", 7, 4), ("weight", 12 * 9 + 8, 1)],
)
def test_a_switch_takes_its_kernel_filter_or_input_with_it(granularity: str, switches: int, off: int) -> None:
    layout = SwitchLayout((ConvShape("a", 4, 3, (3, 3)), ConvShape("b", 2, 4, (1, 1))), granularity)
    switched = Switches(layout, num_domains=2)
    assert layout.num_switches == switches
    with torch.no_grad():
        switched.scores_DM[1, 0] = -1.0
    weight = torch.ones(4, 3, 3, 3)
    masked = switched.tensors(1, {"a.weight": weight, "b.weight": torch.ones(2, 4, 1, 1)})["a.weight"]
    assert int((masked == 0).sum()) == (1 if granularity == "weight" else off * 9)
    assert int((~switched.kernel_masks()[1]).sum()) == off
    assert bool(switched.kernel_masks()[0].all())
