"""Which batch norms read a convolution and nothing else does."""

import pytest
import timm
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from prunus.masks.norms_after import norms_after


class _Layers(nn.Module):
    """Some layers, called by a function of the test."""

    def __init__(self, forward: object, **layers: nn.Module) -> None:
        super().__init__()
        self.call = forward
        for name, layer in layers.items():
            self.add_module(name, layer)

    def forward(self, images: Tensor) -> Tensor:
        features: Tensor = self.call(self, images).mean((2, 3))  # type: ignore[operator]
        return features


def _conv(inputs: int = 3, bias: bool = False) -> nn.Conv2d:
    return nn.Conv2d(inputs, 3, 1, bias=bias)


CASES = {
    "direct": (_Layers(lambda m, x: m.a(m.conv(x)), conv=_conv(), a=nn.BatchNorm2d(3)), {"conv": "a"}),
    "an activation in between": (
        _Layers(lambda m, x: m.a(F.relu(m.conv(x), inplace=True)), conv=_conv(), a=nn.BatchNorm2d(3)),
        {},
    ),
    "a second reader": (
        _Layers(lambda m, x: m.a(y := m.conv(x)) + y, conv=_conv(), a=nn.BatchNorm2d(3)),
        {},
    ),
    "two norms": (
        _Layers(lambda m, x: m.a(y := m.conv(x)) + m.b(y), conv=_conv(), a=nn.BatchNorm2d(3), b=nn.BatchNorm2d(3)),
        {},
    ),
    "a convolution called twice": (
        _Layers(lambda m, x: m.a(m.conv(x)) + m.b(m.conv(-x)), conv=_conv(), a=nn.BatchNorm2d(3), b=nn.BatchNorm2d(3)),
        {},
    ),
    "a norm called twice": (
        _Layers(lambda m, x: m.a(m.c(x)) + m.a(m.d(x)), c=_conv(), d=_conv(), a=nn.BatchNorm2d(3)),
        {},
    ),
    "a bias": (_Layers(lambda m, x: m.a(m.conv(x)), conv=_conv(bias=True), a=nn.BatchNorm2d(3)), {}),
    "a norm without weights": (
        _Layers(lambda m, x: m.a(m.conv(x)), conv=_conv(), a=nn.BatchNorm2d(3, affine=False)),
        {},
    ),
    "a norm over several channels": (
        _Layers(lambda m, x: m.a(m.conv(x)), conv=_conv(), a=nn.GroupNorm(1, 3)),
        {},
    ),
    "an image changed in place": (
        _Layers(lambda m, x: m.a(m.conv(x.sub_(1))), conv=_conv(), a=nn.BatchNorm2d(3)),
        {"conv": "a"},
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_a_norm_belongs_to_a_convolution_that_it_alone_reads(name: str) -> None:
    network, expected = CASES[name]
    assert norms_after(network.train(), 4) == expected
    assert network.training
    assert not any(module._forward_hooks or module._forward_pre_hooks for module in network.modules())


@pytest.mark.parametrize(("name", "count"), [("resnet18", 20), ("resnetv2_50", 32), ("convnext_atto", 0)])
def test_norms_of_real_networks(name: str, count: int) -> None:
    network = timm.create_model(name, pretrained=False)
    network.reset_classifier(0)  # type: ignore[operator]  # timm's way to ask for features
    pairs = norms_after(network, 64)
    assert len(pairs) == len(set(pairs.values())) == count
    for conv, norm in pairs.items():
        assert isinstance(network.get_submodule(norm), nn.BatchNorm2d)
        assert network.get_submodule(norm).num_features == network.get_submodule(conv).out_channels


def test_the_gradient_by_a_factor_of_such_a_filter_is_0() -> None:
    """The reason to look for them, with autograd; the scale of the filter itself does not matter."""
    network, _ = CASES["direct"]
    scale = torch.ones(3, 1, 1, 1, dtype=torch.float64, requires_grad=True)
    weight = network.get_parameter("conv.weight").double()
    norm = nn.BatchNorm2d(3, eps=1e-12).double()
    output = norm(F.conv2d(torch.randn(8, 3, 5, 5, dtype=torch.float64), weight * scale))
    (output * torch.randn(output.shape, dtype=torch.float64)).sum().backward()
    assert scale.grad is not None
    assert float(scale.grad.abs().max()) < 1e-8
