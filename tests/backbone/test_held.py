"""Linear layers whose weights are used in another way than by calling them get no switches."""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from prunus.backbone.held import held_note, hold_linears
from prunus.backbone.probe import probe_network
from prunus.masks.layout import convolutions


class _Mixed(nn.Module):
    """A layer that is called, one whose weights are read, and torch's attention."""

    def __init__(self) -> None:
        super().__init__()
        self.called = nn.Linear(3, 8)
        self.read = nn.Linear(8, 8)
        self.attention = nn.MultiheadAttention(8, 2, batch_first=True)

    def forward(self, images: Tensor) -> Tensor:
        tokens = self.called(images.flatten(2).transpose(1, 2))
        tokens = F.linear(tokens, self.read.weight * 2)
        mixed: Tensor = self.attention(tokens, tokens, tokens)[0]
        return mixed.mean(1)


def test_only_layers_that_are_called_get_switches_and_the_others_are_named() -> None:
    network = _Mixed()
    before = network(torch.ones(1, 3, 4, 4))
    hold_linears(network, but=probe_network(network, 4).positions)
    assert [conv.name for conv in convolutions(network)] == ["called"]
    note = held_note(network)
    assert note is not None
    # and two projections of the attention
    assert note.startswith("3 linear layers without switches, with 320 weights, such as 'read'")
    assert torch.equal(network(torch.ones(1, 3, 4, 4)), before)


class _Positions(nn.Module):
    """A linear layer of the image, and one of constant positions."""

    def __init__(self) -> None:
        super().__init__()
        self.image = nn.Linear(3, 8)
        self.position = nn.Linear(2, 8)

    def forward(self, images: Tensor) -> Tensor:
        places = self.position(torch.ones(16, 2))
        features: Tensor = (self.image(images.flatten(2).transpose(1, 2)) + places).mean(1)
        return features


def test_a_layer_that_does_not_read_the_image_stays_whole_and_costs_nothing() -> None:
    network = _Positions()
    probe = probe_network(network, 4)
    hold_linears(network, but=probe.positions)
    assert [conv.name for conv in convolutions(network)] == ["image"]
    assert probe.product_macs == 0
    assert all(parameter.requires_grad for parameter in network.parameters())


def test_a_network_that_calls_all_its_layers_has_no_note() -> None:
    network = nn.Sequential(nn.Flatten(), nn.Linear(12, 4), nn.Linear(4, 4))
    hold_linears(network, but=probe_network(network, 2).positions)
    assert held_note(network) is None
    assert [conv.name for conv in convolutions(network)] == ["1", "2"]
