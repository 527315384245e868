"""Keeping less for the backward pass: the same numbers, and really less is kept."""

from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from prunus.methods.frugal_backward import FrugalBackward

CLASSES = {"a": ["x", "y"]}


class _Sampler(nn.Module):
    """Every kind of layer that the mode knows, some with frozen and some with learned factors."""

    def __init__(self, inplace: bool) -> None:
        super().__init__()
        self.frozen = nn.Conv2d(3, 6, 3, padding=1, stride=2).requires_grad_(False)
        self.learned = nn.Conv2d(6, 6, 1)
        self.grouped = nn.Conv2d(6, 6, 3, groups=3, dilation=2, padding=2).requires_grad_(False)
        self.grouped.bias.requires_grad_(True)  # type: ignore[union-attr]
        self.norm = nn.BatchNorm2d(6).eval()
        self.norm.weight.requires_grad_(False)
        self.own_norm = nn.BatchNorm2d(6).eval()
        self.inplace, self.relu6 = inplace, nn.ReLU6(inplace)

    def forward(self, x: Tensor) -> Tensor:
        x = F.relu(self.norm(self.frozen(x)), inplace=self.inplace)
        x = self.relu6(F.relu6(self.own_norm(self.learned(x)) * 3, inplace=self.inplace) * 1.5)
        x = F.avg_pool2d(self.grouped(x), 2) + F.adaptive_avg_pool2d(x, (4, 4))
        return F.hardtanh(x, -0.5, 0.7).sum()


@pytest.mark.parametrize("inplace", [False, True])
def test_losses_and_gradients_are_the_same_with_and_without_keeping_less(inplace: bool) -> None:
    torch.manual_seed(0)
    network = _Sampler(inplace)
    results = []
    for frugal in (False, True):
        network.zero_grad()
        images = torch.randn(5, 3, 16, 16, generator=torch.Generator().manual_seed(1)).requires_grad_()
        if frugal:
            with FrugalBackward():
                loss = network(images)
        else:
            loss = network(images)
        loss.backward()
        gradients = [p.grad for p in [images, *network.parameters()] if p.requires_grad]
        results.append([loss.detach(), *gradients])
    assert len(results[0]) == 8
    for expected, found in zip(*results, strict=True):
        assert expected is not None
        assert found is not None
        torch.testing.assert_close(found, expected)
        assert found.abs().sum() > 0


@pytest.mark.parametrize(("layer", "low", "high"), [(F.relu6, 0, 6), (F.relu, 0, float("inf")), (F.hardtanh, -1, 1)])
def test_gradients_pass_between_the_bounds_of_a_rectifier_and_nowhere_else(
    layer: Callable[[Tensor], Tensor], low: float, high: float
) -> None:
    values = torch.tensor([-9.0, -1.0, -0.5, 0.0, 0.5, 1.0, 5.9, 6.0, 6.1, 99.0], requires_grad=True)
    with FrugalBackward():
        output = layer(values)
    output.sum().backward()  # type: ignore[no-untyped-call]
    assert values.grad is not None
    assert values.grad.tolist() == [float(low < value < high) for value in values.tolist()]
