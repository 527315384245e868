"""Keeping less for the backward pass: the same numbers, and really less is kept."""

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from benchmarks.activation_memory import held_bytes
from prunus.backbone.zoo import load_backbone
from prunus.config import BackboneChoice
from prunus.methods.frugal_backward import FrugalBackward
from prunus.methods.table import adapt

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


def test_da3_keeps_far_fewer_activations_than_the_methods_that_multiply() -> None:
    backbone = load_backbone(BackboneChoice(name="wrn14_2"))
    images, labels = torch.randn(16, 3, 32, 32), torch.arange(16) % 2
    kept = {
        method: held_bytes(adapt(backbone, CLASSES, method), images, labels, "a")
        for method in ("da3", "bn", "parallel_adapters", "union", "finetune")
    }
    assert all(kept["da3"] < kept[method] / 4 for method in kept if method != "da3"), kept


def test_da3s_gradients_are_those_of_the_same_network_without_the_mode(monkeypatch: pytest.MonkeyPatch) -> None:
    backbone = load_backbone(BackboneChoice(name="wrn14_2"))
    images, labels = torch.randn(4, 3, 32, 32), torch.arange(4) % 2
    gradients = []
    for frugal in (True, False):
        net = adapt(backbone, CLASSES, "da3")
        if not frugal:
            from contextlib import nullcontext

            from prunus.methods.da3 import AddedAttention

            monkeypatch.setattr(AddedAttention, "computing", lambda _self: nullcontext())
        F.cross_entropy(net(images, "a"), labels).backward()  # type: ignore[no-untyped-call]
        gradients.append([p.grad for p in net.parameters() if p.requires_grad])
    for found, expected in zip(*gradients, strict=True):
        torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-6)
