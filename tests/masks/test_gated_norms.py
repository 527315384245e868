"""Switches of whole filters: the same outputs as with masked kernels, and a gradient whether they are on or off."""

from __future__ import annotations

import copy

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from prunus.backbone.probe import probe_network
from prunus.backbone.zoo import Backbone
from prunus.images import Preprocess
from prunus.masks.gated_norms import GatedNorms, gated_layout
from prunus.masks.network import MultiDomainNet
from prunus.methods.table import METHODS, adapt

CLASSES = {"a": ["x", "y"], "b": ["x", "y"]}
PREPROCESS = Preprocess(size=9, resize=9, mean=(0, 0, 0), std=(1, 1, 1))
OFF = (1, 4)  # filters of the first convolution


def _backbone() -> Backbone:
    torch.manual_seed(0)
    network = nn.Sequential(
        nn.Conv2d(3, 6, 3, bias=False),
        nn.BatchNorm2d(6),
        nn.ReLU(),
        nn.Conv2d(6, 6, 3, groups=6, bias=False),
        nn.BatchNorm2d(6),
        nn.ReLU(),
        nn.Conv2d(6, 5, 1),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
    )
    for norm in (network[1], network[4]):
        assert isinstance(norm, nn.BatchNorm2d)
        nn.init.normal_(norm.weight)
        nn.init.normal_(norm.bias)
    return Backbone("tiny", network, PREPROCESS, probe_network(network, 9))


def _net(granularity: str = "filter") -> MultiDomainNet:
    options = METHODS["ba2"].options.model_validate({"granularity": granularity})
    net = adapt(_backbone(), CLASSES, "ba2", options=options)
    assert net.switches is not None
    with torch.no_grad():
        for filter_ in OFF:
            net.switches.scores_DM[0, filter_] = -1.0
    return net


def _images(seed: int = 0) -> Tensor:
    return torch.randn(8, 3, 9, 9, generator=torch.Generator().manual_seed(seed))


def _layers(net: MultiDomainNet) -> list[nn.Module]:
    """Return the backbone's layers in training mode."""
    return list(copy.deepcopy(net.network).train().children())


def _masked(net: MultiDomainNet, images: Tensor) -> Tensor:
    """Compute domain a with masked kernels, in training mode, without any code of the switches' norms."""
    layers = _layers(net)
    assert isinstance(layers[0], nn.Conv2d)
    with torch.no_grad():
        layers[0].weight[list(OFF)] = 0.0
        features: Tensor = nn.Sequential(*layers)(images)
    logits: Tensor = net.heads[0](features)
    return logits


@pytest.mark.parametrize(
    ("granularity", "expected"),
    [("kernel", {}), ("filter", {"0": "1", "3": "4"}), ("input_channel", {"3": "4"})],
)
def test_norms_carry_the_switches_that_turn_whole_filters_off(granularity: str, expected: dict[str, str]) -> None:
    """The one input of a depthwise convolution's groups is a whole filter too; a bias must not be lost."""
    assert gated_layout(_backbone(), granularity).norms == expected


def test_in_training_a_filter_that_is_off_computes_what_masked_kernels_compute() -> None:
    net = _net()
    torch.testing.assert_close(net(_images(), "a"), _masked(net, _images()))


def test_outside_training_kernels_are_masked_and_compute_the_same_as_norms_that_are() -> None:
    net = _net()
    for seed in range(3):
        net(_images(seed), "a")
    net.eval()
    tensors = net.tensors("a")
    assert not tensors["0.weight"][list(OFF)].any()
    assert tensors["1.weight"].all()
    assert not tensors["1.running_mean"][list(OFF)].any()
    assert tensors["1.running_mean"][[0, 2, 3, 5]].all()
    first = F.conv2d(_images(), net.network.get_parameter("0.weight"))
    shape = (1, 6, 1, 1)
    mean, variance = (tensors[f"1.running_{name}"].reshape(shape) for name in ("mean", "var"))
    gate = torch.ones(shape)
    gate[:, list(OFF)] = 0
    normed = (first - mean) / (variance + 1e-5).sqrt()
    hidden = normed * tensors["1.weight"].reshape(shape) * gate + tensors["1.bias"].reshape(shape)
    own = {name.removeprefix("4."): tensor for name, tensor in tensors.items() if name.startswith("4.")}
    with torch.no_grad():
        second = F.conv2d(hidden.relu(), net.network.get_parameter("3.weight"), groups=6)
        second = F.batch_norm(second, own["running_mean"], own["running_var"], own["weight"], own["bias"])
        expected = net.heads[0](nn.Sequential(*_layers(net)[6:])(second.relu()))
        torch.testing.assert_close(net(_images(), "a"), expected)


def test_means_of_other_domains_stay_as_they_are() -> None:
    net = _net()
    norms = next(adapter for adapter in net.adapters if isinstance(adapter, GatedNorms))
    before = norms.copies.of(1)["1.running_mean"].clone()
    assert net.switches is not None
    with torch.no_grad():
        net.switches.scores_DM[1] = -1.0
    net(_images(), "a")
    assert torch.equal(norms.copies.of(1)["1.running_mean"], before)


def test_the_gradient_of_a_filters_switch_is_that_of_a_gate_behind_the_normalization() -> None:
    net = _net()
    labels = torch.tensor([0, 1] * 4)
    F.cross_entropy(net(_images(), "a"), labels).backward()  # type: ignore[no-untyped-call]
    assert net.switches is not None
    assert net.switches.scores_DM.grad is not None
    found = net.switches.layout.views(net.switches.scores_DM.grad[0])["0"].flatten()
    gate = torch.ones(6)
    gate[list(OFF)] = 0
    gate.requires_grad_()
    conv, norm, *others = _layers(net)
    assert isinstance(norm, nn.BatchNorm2d)
    normed = F.batch_norm(conv(_images()), None, None, training=True)
    hidden = normed * (norm.weight * gate).reshape(1, 6, 1, 1) + norm.bias.reshape(1, 6, 1, 1)
    F.cross_entropy(net.heads[0](nn.Sequential(*others)(hidden)), labels).backward()  # type: ignore[no-untyped-call]
    assert gate.grad is not None
    torch.testing.assert_close(found, gate.grad, rtol=1e-4, atol=1e-7)
    assert float(found[OFF[0]].abs()) > 1e-3  # the bias of the other leaves the activation flat


def test_outside_training_the_means_of_filters_that_are_off_stay_as_they_are() -> None:
    net = _net().eval()
    norms = next(adapter for adapter in net.adapters if isinstance(adapter, GatedNorms))
    mean = norms.copies.of(0)["1.running_mean"]
    mean.fill_(3.0)
    net(_images(), "a")
    assert mean.tolist() == [3.0] * 6


def test_kernel_switches_leave_norms_alone() -> None:
    net = _net("kernel")
    norms = next(adapter for adapter in net.adapters if isinstance(adapter, GatedNorms))
    own = norms.copies.of(0)
    assert all(tensor is own[name] for name, tensor in norms.tensors(0, {}).items())


def test_a_copy_of_a_network_carries_its_own_switches() -> None:
    net = _net()
    other = copy.deepcopy(net)
    assert other.switches is not None
    with torch.no_grad():
        other.switches.scores_DM[0, :6] = -1.0
    norms = next(adapter for adapter in other.adapters if isinstance(adapter, GatedNorms))
    assert not norms.tensors(0, {})["1.weight"].any()
    assert other.state_dict().keys() == net.state_dict().keys()
    assert not any("switches" in name for name in net.state_dict())
