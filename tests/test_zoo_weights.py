"""The networks of the table compute with all of their layers, and a layer that does not count is noticed."""

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from typing_extensions import override

from benchmarks.zoo_networks import NETWORKS
from benchmarks.zoo_row import DifferentError, largest_difference
from benchmarks.zoo_table import EQUAL, is_equal
from benchmarks.zoo_weights import GAINS, draw_weights, moved_by_scrambling
from prunus.backbone.timm_networks import build_timm
from prunus.masks.network import MultiDomainNet


class _Residual(nn.Module):
    """A network whose second layer is scaled, as a new ConvNeXt scales its blocks."""

    def __init__(self, scale: float) -> None:
        super().__init__()
        self.first = nn.Conv2d(3, 4, 1)
        self.second = nn.Conv2d(4, 4, 1)
        self.gamma = nn.Parameter(torch.full((4, 1, 1), scale))

    @override
    def forward(self, images: Tensor) -> Tensor:
        values = self.first(images)
        features: Tensor = (values + self.gamma * self.second(values)).mean((2, 3))
        return features


def _moved(network: _Residual) -> dict[str, float]:
    torch.manual_seed(0)
    net = MultiDomainNet(network, 4, {"birds": ("a", "b"), "signs": ("c", "d", "e")}, []).eval()
    before = {name: tensor.clone() for name, tensor in net.state_dict().items()}
    moved = moved_by_scrambling(net, torch.randn(2, 3, 6, 6), ("first", "second"))
    assert all(torch.equal(tensor, before[name]) for name, tensor in net.state_dict().items())
    assert not net.adapters
    return moved


def test_a_layer_behind_a_scale_of_a_new_network_does_not_count_until_it_is_drawn() -> None:
    network = _Residual(1e-6)
    moved = _moved(network)
    assert moved["first"] > 0.01
    assert moved["second"] < 1e-4
    assert draw_weights(network) == 1
    assert GAINS[0] <= float(network.gamma.min()) < float(network.gamma.max()) <= GAINS[1]
    assert min(_moved(network).values()) > 0.01


@pytest.mark.parametrize("name", ["convnext_atto", "nf_regnet_b1"])
def test_a_drawn_network_has_no_constant_parameter_and_is_the_same_every_time(name: str) -> None:
    torch.manual_seed(0)
    networks = [build_timm(f"timm/{name}", NETWORKS[name][1]) for _ in range(2)]
    networks[1].load_state_dict(networks[0].state_dict())
    for network in networks:
        assert draw_weights(network) > 50
    first, second = (dict(network.named_parameters()) for network in networks)
    assert [name for name in first if not torch.equal(first[name], second[name])] == []
    assert [name for name, each in first.items() if each.numel() > 1 and each.min() == each.max()] == []


def test_logits_that_are_no_numbers_or_too_far_away_are_different() -> None:
    theirs = np.array([[1.0, -2.0]], np.float32)
    assert largest_difference([(theirs + 1e-4, theirs)]) == pytest.approx(5e-5, rel=1e-2)
    for ours in (theirs + 1e-3, np.full_like(theirs, np.nan)):
        with pytest.raises(DifferentError, match="the logits differ by"):
            largest_difference([(theirs, theirs), (ours, theirs)])


@pytest.mark.parametrize("missing", EQUAL)
def test_a_network_goes_all_the_way_only_with_every_step(missing: str) -> None:
    row = {step: {"yes": True} for step in EQUAL}
    assert is_equal(row)
    assert "onnx" in EQUAL
    assert not is_equal(row | {missing: {"yes": False}})
    assert not is_equal({step: each for step, each in row.items() if step != missing})
