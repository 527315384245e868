"""An adapter that overrides nothing leaves the backbone as it is and costs nothing."""

import torch

from prunus.backbone.probe import probe_network
from prunus.masks.adapter import Adapter, LeavesEarly
from prunus.masks.network import MultiDomainNet
from tests.makers.tiny_training import CLASSES, tiny_backbone


def test_the_base_class_changes_nothing_and_costs_nothing() -> None:
    adapter = Adapter()
    backbone = tiny_backbone()
    assert adapter.tensors(0, dict(backbone.network.named_parameters())) == {}
    assert adapter.branches(0) == {}
    assert adapter.loss(0, torch.zeros(1, 2), torch.zeros(1, dtype=torch.long)) is None
    assert adapter.adam_rows() == []
    assert adapter.stop(0) is None
    free = adapter.cost(0, probe_network(backbone.network, 9))
    assert (free.weights, free.switches, free.side, free.shared_weights, free.macs) == (0, 0, 0, 0, 0)
    assert (dict(free.masks), free.owned) == ({}, frozenset())
    with adapter.computing():
        pass


def test_a_network_with_it_computes_the_backbones_features() -> None:
    backbone = tiny_backbone()
    net = MultiDomainNet(backbone.network, backbone.probe.num_features, CLASSES, [Adapter()], 9).eval()
    images = torch.randn(2, 3, 9, 9)
    expected = net.heads[1](backbone.network(images))
    assert torch.equal(net(images, "b"), expected)
    assert net.extra_loss("b", expected, torch.zeros(2, dtype=torch.long)) is None


class _Branching(Adapter):
    """Doubles the first layer for one domain, and exits early in the other."""

    def branches(self, domain: int) -> dict[str, object]:  # type: ignore[override]
        return {"0": self._double} if domain == 0 else {"2": self._exit}

    def _double(self, _inputs: torch.Tensor, outputs: torch.Tensor) -> torch.Tensor:
        return 2 * outputs

    def _exit(self, _inputs: torch.Tensor, outputs: torch.Tensor) -> torch.Tensor:
        raise LeavesEarly(outputs.mean((2, 3))[:, :3])


def test_branches_replace_what_the_next_layer_sees_for_their_domain_only() -> None:
    backbone = tiny_backbone()
    net = MultiDomainNet(backbone.network, backbone.probe.num_features, CLASSES, [_Branching()], 9).eval()
    images = torch.randn(2, 3, 9, 9)
    first, *others = backbone.network.children()
    expected = 2 * first(images)
    for layer in others:
        expected = layer(expected)
    assert torch.equal(net(images, "a"), net.heads[0](expected))
    assert net(images, "b").shape == (2, 3)
    assert torch.equal(backbone.network(images), backbone.network(images))  # no hook is left
    assert not any(layer._forward_hooks for layer in backbone.network.modules())
