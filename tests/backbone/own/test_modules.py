"""An own network is copied and checked before it is used; wrong ones are in test_wrong_checkpoints_and_modules."""

from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn

from prunus.backbone.own.modules import build_own, check_pass
from prunus.backbone.own.registry import OwnBackbone
from prunus.errors import BackboneError
from tests.makers.own_networks import Classifying, LeafNet, leaf_net


def test_the_network_is_a_copy_in_single_precision() -> None:
    module = leaf_net().half()
    network = build_own(OwnBackbone("leaf_net", lambda: module))
    assert network is not module
    assert network.get_parameter("conv1.weight").dtype == torch.float32
    assert torch.equal(network.get_parameter("conv1.weight"), module.conv1.weight.float())


def _both(module: nn.Module) -> nn.Module:
    compiled: nn.Module = torch.compile(module)  # type: ignore[assignment]
    return nn.DataParallel(compiled)


@pytest.mark.parametrize("wrap", [nn.DataParallel, torch.compile, _both])
def test_what_torch_puts_around_a_network_is_taken_off(wrap: Callable[[nn.Module], nn.Module]) -> None:
    network = build_own(OwnBackbone("leaf_net", lambda: wrap(leaf_net())))
    assert isinstance(network, LeafNet)
    assert torch.equal(network.conv1.weight, leaf_net().conv1.weight)


def test_what_cannot_be_copied_is_refused() -> None:
    class Stubborn(LeafNet):
        def __deepcopy__(self, memo: object) -> nn.Module:
            raise TypeError("cannot pickle a lock")

    with pytest.raises(BackboneError, match=r"'leaf_net' cannot be copied \(TypeError: cannot pickle a lock\)"):
        build_own(OwnBackbone("leaf_net", Stubborn))


def test_checking_leaves_the_network_as_it_was() -> None:
    network = leaf_net().train()
    before = network.norm1.running_mean
    assert before is not None
    kept = before.clone()
    check_pass("leaf_net", network, 16)
    assert network.training
    assert torch.equal(before, kept)
    assert not any(module._forward_hooks for module in network.modules())


def test_a_convolution_may_be_used_twice_and_norms_without_state_may_be_shared() -> None:
    class Twice(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first = nn.Conv2d(3, 4, 3)
            self.conv = nn.Conv2d(4, 4, 3, padding=1)
            self.norm = nn.InstanceNorm2d(4)

        def forward(self, images: Tensor) -> Tensor:
            x = self.norm(self.conv(self.first(images)))
            return self.norm(self.conv(x)).mean((2, 3))  # type: ignore[no-any-return]

    check_pass("twice", build_own(OwnBackbone("twice", Twice)), 8)


def test_a_classifier_inside_another_module_is_found() -> None:
    with pytest.raises(BackboneError, match=r"ends with the linear layer 'inner.fc' \(12 -> 10\)"):
        check_pass("wrapped", _Wrapped(), 16)


class _Wrapped(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.inner = Classifying()

    def forward(self, images: Tensor) -> Tensor:
        return self.inner(images)  # type: ignore[no-any-return]
