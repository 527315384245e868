"""DA³: few activations in memory, unchanged gradients, and biases of norms only."""

from contextlib import nullcontext

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from benchmarks.activation_memory import held_bytes
from prunus.backbone.zoo import load_backbone
from prunus.config import BackboneChoice
from prunus.methods.da3 import AddedAttention, DomainBiases
from prunus.methods.table import adapt

CLASSES = {"a": ["x", "y"]}


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
            monkeypatch.setattr(AddedAttention, "computing", lambda _self: nullcontext())
        F.cross_entropy(net(images, "a"), labels).backward()  # type: ignore[no-untyped-call]
        gradients.append([p.grad for p in net.parameters() if p.requires_grad])
    for found, expected in zip(*gradients, strict=True):
        torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-6)


def test_a_domain_has_its_own_biases_of_norms_and_of_nothing_else() -> None:
    network = nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.BatchNorm2d(4, affine=False), nn.Linear(4, 4))
    assert list(DomainBiases(network, 2).tensors(1, {})) == ["1.bias"]
