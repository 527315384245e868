"""Convolutions and norms become operations with the right pads, scales and biases."""

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor, nn

from prunus.errors import BackboneError
from prunus.graph.operations import Conv
from prunus.graph.shapes import value_shapes
from prunus.lowering.build import build_graph
from tests.lowering.test_build import assert_same
from tests.makers.masked_networks import tiny_net
from tests.makers.odd_networks import OddNetwork, mean, odd_net


def _pads_of(conv: nn.Conv2d, size: int) -> tuple[int, ...]:
    torch.manual_seed(0)
    _, net = tiny_net(nn.Sequential(conv, nn.AdaptiveAvgPool2d(1), nn.Flatten()), size)
    network = build_graph(net)
    assert_same(net, network)
    operation = network.graph[0]
    assert isinstance(operation, Conv)
    return operation.pads


@given(kernel=st.sampled_from([1, 3, 5]), dilation=st.integers(1, 2))
def test_same_padding_pads_as_torch_does(kernel: int, dilation: int) -> None:
    reach = (kernel - 1) * dilation
    pads = _pads_of(nn.Conv2d(3, 2, kernel, padding="same", dilation=dilation), 11)
    assert pads == (reach // 2, reach // 2, reach - reach // 2, reach - reach // 2)


def test_timms_same_padding_depends_on_the_image() -> None:
    class Conv2dSame(nn.Conv2d):
        def forward(self, x: Tensor) -> Tensor:
            height = max((-(-x.shape[-2] // 2) - 1) * 2 + 3 - x.shape[-2], 0)
            padded = F.pad(x, (height // 2, height - height // 2) * 2)
            return F.conv2d(padded, self.weight, self.bias, self.stride)

    assert _pads_of(Conv2dSame(3, 2, 3, 2), 8) == (0, 0, 1, 1)
    assert _pads_of(Conv2dSame(3, 2, 3, 2), 9) == (1, 1, 1, 1)


def test_padding_that_is_not_zeros_is_refused() -> None:
    with pytest.raises(BackboneError, match=r"layer '0' \(Conv2d\)"):
        _pads_of(nn.Conv2d(3, 2, 3, padding=1, padding_mode="reflect"), 8)


def test_a_batch_norm_is_a_scale_and_a_bias() -> None:
    _, net = odd_net(lambda m, x: mean(m.again(m.norm(m.a(x)))))
    with torch.no_grad():
        for tensor in net.tensors("b").values():
            if tensor.is_floating_point():
                tensor.uniform_(0.5, 2.0)
    network = build_graph(net)
    assert set(network.nodes[0].tensors) == {"scale", "bias"}
    assert_same(net, network)


def test_a_batch_norm_without_statistics_is_refused() -> None:
    class Own(OddNetwork):
        def __init__(self) -> None:
            super().__init__(lambda m, x: mean(m.norm(m.a(x))))
            self.norm = nn.BatchNorm2d(4, track_running_stats=False)

    with pytest.raises(BackboneError, match="the features of an image depend on the images beside it"):
        build_graph(tiny_net(Own(), 9)[1])


def test_norms_of_features_are_lowered_and_norms_over_pixels_refused() -> None:
    _, net = odd_net(lambda m, x: m.features(m.flat(mean(m.a(x)))))
    network = build_graph(net)
    assert [operation.op for operation in network.graph] == ["conv", "mean", "affine", "layer_norm"]
    assert_same(net, network)
    torch.manual_seed(0)
    pixels = nn.Sequential(nn.Conv2d(3, 4, 3, padding=1), nn.LayerNorm([4, 8, 8]), nn.Flatten())
    with pytest.raises(BackboneError, match=r"layer '1' \(LayerNorm\)"):
        build_graph(tiny_net(pixels)[1])


@pytest.mark.parametrize("groups", [1, 2, 6])
def test_a_group_norm_is_a_layer_norm_of_groups(groups: int) -> None:
    torch.manual_seed(0)
    layers = nn.Sequential(nn.Conv2d(3, 6, 3), nn.GroupNorm(groups, 6), nn.ReLU(), nn.Conv2d(6, 4, 3))
    _, net = tiny_net(nn.Sequential(layers, nn.AdaptiveAvgPool2d(1), nn.Flatten()), 8)
    with torch.no_grad():
        for tensor in net.tensors("b").values():
            if tensor.is_floating_point() and tensor.ndim == 1:
                tensor.uniform_(0.5, 2.0)
    network = build_graph(net)
    assert_same(net, network)
    (norm,) = (number for number, operation in enumerate(network.graph) if operation.op == "layer_norm")
    assert value_shapes(network.graph, 8)[norm + 1] == (6 * 36 // groups, 1, groups)


def test_a_group_norm_of_too_many_numbers_is_refused() -> None:
    _, net = tiny_net(
        nn.Sequential(nn.Conv2d(3, 40, 1), nn.GroupNorm(1, 40), nn.AdaptiveAvgPool2d(1), nn.Flatten()), 64
    )
    with pytest.raises(BackboneError, match=r"layer '1' \(GroupNorm\)"):
        build_graph(net)
