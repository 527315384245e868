"""Cut networks have the wanted MACs, and padding written as a convolution computes the same."""

import copy

import pytest
import torch
from torch import Tensor, nn

from prunus.alternatives.common.cutting import cut_to, cuttable
from prunus.alternatives.common.joint import JointNetwork, count_macs
from prunus.backbone.wrn import WideResNet
from prunus.errors import BackboneError

SIZE = 16


@pytest.fixture
def network() -> nn.Module:
    torch.manual_seed(0)
    network = WideResNet(blocks=1, stem=8, widths=(16, 16, 32))
    network(torch.randn(8, 3, SIZE, SIZE))  # norms that are not the identity
    return network.eval()


def test_macs_are_those_of_the_formula() -> None:
    layers = nn.Sequential(nn.Conv2d(3, 5, 3, padding=1), nn.Conv2d(5, 7, 1, stride=2), nn.AvgPool2d(2), nn.Flatten())
    assert count_macs(layers, 4) == 16 * 5 * 3 * 9 + 4 * 7 * 5


def test_appended_channels_become_a_convolution_that_computes_the_same(network: nn.Module) -> None:
    images = torch.randn(3, 3, SIZE, SIZE)
    before = copy.deepcopy(network.state_dict())
    changed = cuttable(network, SIZE)
    added = [name for name, _ in changed.named_modules() if name.startswith("appended")]
    assert len(added) == 2  # the second stage is not wider than the first
    with torch.no_grad():
        torch.testing.assert_close(changed.eval()(images), network(images))
    for name, tensor in network.state_dict().items():
        assert torch.equal(tensor, before[name])


def test_a_network_without_padding_stays_as_it_is() -> None:
    layers = nn.Sequential(nn.Conv2d(3, 5, 3), nn.AdaptiveAvgPool2d(1), nn.Flatten())
    assert cuttable(layers, SIZE) is layers


def test_a_network_that_decides_by_its_images_stays_as_it_is() -> None:
    class Deciding(nn.Module):
        def forward(self, images: Tensor) -> Tensor:
            return images.mean((2, 3)) if images.sum() > 0 else images.amax((2, 3))

    deciding = Deciding()
    assert cuttable(deciding, SIZE) is deciding


@pytest.mark.parametrize("share", [0.7, 0.3])
def test_a_cut_has_at_least_the_macs_that_are_wanted_and_hardly_more(network: nn.Module, share: float) -> None:
    joint = JointNetwork(cuttable(network, SIZE), 32, {"one": 3, "two": 4}, 0).eval()
    dense = count_macs(joint.features, SIZE)
    cut = cut_to(joint, share * dense, SIZE)
    found = count_macs(cut.features, SIZE)
    assert share * dense <= found <= (share + 0.2) * dense  # a channel of so small a network is a large step
    assert count_macs(joint.features, SIZE) == dense  # which is not changed
    shapes = [tuple(logits.shape) for logits in cut(torch.zeros(2, 3, SIZE, SIZE))]
    assert shapes == [(2, 3), (2, 4)]


def test_a_network_that_is_small_enough_is_not_cut(network: nn.Module) -> None:
    joint = JointNetwork(network, 32, {"one": 3}, 0)
    assert cut_to(joint, 1e12, SIZE) is joint


def test_what_cannot_be_cut_is_refused(network: nn.Module, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_arguments: object, **_options: object) -> None:
        raise RuntimeError("no such layer\nand more")

    monkeypatch.setattr("torch_pruning.pruner.BasePruner", refuse)
    with pytest.raises(BackboneError, match=r"^Torch-Pruning cannot cut this network: no such layer$"):
        cut_to(JointNetwork(network, 32, {"one": 2}, 0), 1, SIZE)
