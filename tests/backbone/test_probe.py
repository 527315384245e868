"""One blank image shows the shapes of a network, or why it cannot be used."""

import pytest
import torch
from torch import Tensor, nn

from prunus.backbone.probe import probe_network, unread_note
from prunus.backbone.zoo import load_backbone
from prunus.config import BackboneChoice
from prunus.errors import BackboneError


class _Twice(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(3, 3, 3)

    def forward(self, images: Tensor) -> Tensor:
        features: Tensor = self.conv(self.conv(images)).mean((2, 3))
        return features


def test_a_convolution_that_is_called_twice_counts_twice_and_has_its_last_shape() -> None:
    network = _Twice().train()
    probe = probe_network(network, 8)
    assert probe.num_features == 3
    assert probe.positions == {"conv": 6 * 6 + 4 * 4}
    assert probe.shapes["conv"] == (3, 4, 4)
    assert network.training


class _Attention(nn.Module):
    """One head of attention over all pixels, and a position embedding."""

    def __init__(self, fused: bool) -> None:
        super().__init__()
        self.fused = fused
        self.qkv = nn.Linear(3, 3 * 5)
        self.position = nn.Parameter(torch.zeros(1, 1, 5))

    def forward(self, images: Tensor) -> Tensor:
        q, k, v = self.qkv(images.flatten(2).transpose(1, 2)).chunk(3, -1)
        if self.fused:
            mixed = nn.functional.scaled_dot_product_attention(q[:, None], k[:, None], v[:, None])[:, 0]
        else:
            mixed = (q @ k.transpose(1, 2)).softmax(-1) @ v
        return (mixed + self.position).mean(1)


@pytest.mark.parametrize("fused", [True, False])
def test_linear_layers_count_by_token_and_the_products_of_attention_beside_them(fused: bool) -> None:
    probe = probe_network(_Attention(fused), 6)
    assert probe.positions == {"qkv": 36}
    assert probe.product_macs == 2 * 36 * 36 * 5


def test_a_convolution_is_no_product() -> None:
    assert probe_network(_Twice(), 8).product_macs == 0


def test_a_network_without_a_feature_vector_is_refused() -> None:
    with pytest.raises(BackboneError, match="does not return one feature vector per image"):
        probe_network(nn.Conv2d(3, 5, 3), 8)


def test_no_hook_stays_in_the_network() -> None:
    network = _Twice()
    probe_network(network, 8)
    with torch.no_grad():
        network(torch.zeros(1, 3, 9, 9))
    assert not network.conv._forward_hooks


def test_an_input_too_small_for_the_network_is_refused() -> None:
    with pytest.raises(BackboneError, match="does not accept images of 8 x 8 pixels"):
        probe_network(nn.Sequential(nn.Conv2d(3, 5, 9), nn.AdaptiveAvgPool2d(1), nn.Flatten()), 8)


def test_products_are_counted_in_a_network_that_passes_its_tokens_on_in_a_tuple() -> None:
    class Block(nn.Module):
        def forward(self, both: tuple[Tensor, Tensor]) -> Tensor:
            x, token = both
            return (x.flatten(2) @ x.flatten(2).mT).mean(1) + token

    class Tokens(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.token = nn.Parameter(torch.zeros(1, 3))
            self.block = Block()

        def forward(self, x: Tensor) -> Tensor:
            features: Tensor = self.block((x, self.token.expand(len(x), -1)))
            return features

    network = Tokens()
    assert probe_network(network, 4).product_macs == 3 * 16 * 3
    assert network.token.requires_grad


@pytest.mark.parametrize(("size", "lost", "sizes"), [(50, "2 pixels", "48, 64"), (33, "1 pixel", "32, 48")])
def test_a_transformer_of_patches_says_how_many_pixels_it_leaves_out(size: int, lost: str, sizes: str) -> None:
    backbone = load_backbone(BackboneChoice(name="timm/test_vit", weights="random", size=size))
    note = f"patches leave out {lost} at the right and at the bottom of images; sizes that use all: {sizes}"
    assert backbone.notes == (note,)


@pytest.mark.parametrize("name", ["timm/test_vit", "timm/resnet10t"])
def test_a_size_of_whole_patches_and_overlapping_windows_have_no_note(name: str) -> None:
    size = 64 if name == "timm/test_vit" else 50
    assert load_backbone(BackboneChoice(name=name, weights="random", size=size)).notes == ()


def test_only_sizes_that_the_network_accepts_are_offered() -> None:
    network = nn.Sequential(nn.Conv2d(3, 4, 4, 4), nn.Flatten(), nn.AdaptiveAvgPool1d(8), nn.Flatten())
    probe = probe_network(network, 10)
    notes = [
        unread_note(network, probe, 10, accepts) or "" for accepts in (None, lambda size: size == 8, lambda _: False)
    ]
    assert [note.partition("of images")[2] for note in notes] == [
        "; sizes that use all: 8, 12",
        "; sizes that use all: 8",
        "",
    ]
