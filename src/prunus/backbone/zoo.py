"""The table of bundled networks; all others come from timm."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import nn

from prunus.backbone.card import BackboneCard, read_card
from prunus.backbone.probe import Probe, probe_network
from prunus.backbone.standardized import bake_standardized
from prunus.backbone.timm_networks import TIMM_PREFIX, build_timm, fetch_timm_weights, timm_names, timm_preprocess
from prunus.backbone.weights import fill, read_weights
from prunus.backbone.wrn import wrn14_2, wrn28_4
from prunus.config import BackboneChoice
from prunus.errors import BackboneError, UnknownNameError
from prunus.images import Preprocess
from prunus.samples import bundled


@dataclass(frozen=True)
class ZooEntry:
    """A bundled network: how to build it, its weights file, and what it was trained on."""

    build: Callable[[], nn.Module]
    file: str
    size: int
    top1: float
    mean: tuple[float, float, float]
    std: tuple[float, float, float]
    trained_on: str


_TINY_IMAGENET = ((0.480, 0.448, 0.398), (0.277, 0.269, 0.282), "Tiny-ImageNet-200")  # mean, std, name

ZOO: dict[str, ZooEntry] = {
    "wrn28_4": ZooEntry(wrn28_4, "wrn28_4.tiny_imagenet_64.safetensors", 64, 0.6341, *_TINY_IMAGENET),
    "wrn14_2": ZooEntry(wrn14_2, "wrn14_2.tiny_imagenet_32.safetensors", 32, 0.4844, *_TINY_IMAGENET),
}


@dataclass(frozen=True)
class Backbone:
    """A pretrained network without its head, its preprocessing, and the shapes of one forward pass."""

    name: str
    network: nn.Module
    preprocess: Preprocess
    probe: Probe


def load_backbone(choice: BackboneChoice) -> Backbone:
    """Build a network with pretrained weights, the weights of a file, or random ones."""
    with torch.random.fork_rng(devices=[]):  # random weights are the same every time
        torch.manual_seed(0)
        network = _build(choice.name)
    card = None
    if choice.weights != "random":
        file = _pretrained(choice.name) if choice.weights == "pretrained" else Path(choice.weights)
        tensors = read_weights(file)
        card = read_card(file)
        if card:
            _check_name(card, choice.name, file)
            network = bake_standardized(network)  # it was trained with plain convolutions
        fill(network, tensors, choice.name)
    network = bake_standardized(network)
    preprocess = _preprocess(choice, card)
    return Backbone(choice.name, network, preprocess, probe_network(network, preprocess.size))


def _build(name: str) -> nn.Module:
    if name in ZOO:
        return ZOO[name].build()
    if name.startswith(TIMM_PREFIX):
        return build_timm(name)
    raise UnknownNameError("backbone", name, [*ZOO, f"{TIMM_PREFIX}<any timm network>", *timm_names(name)])


def _check_name(card: BackboneCard, name: str, file: Path) -> None:
    if card.name != name:
        raise BackboneError(
            f"{file} holds the weights of {card.name}, but the recipe's backbone is {name}; "
            f'set backbone.name = "{card.name}", or choose another file'
        )


def _pretrained(name: str) -> Path:
    return bundled("backbones") / ZOO[name].file if name in ZOO else fetch_timm_weights(name)


def _preprocess(choice: BackboneChoice, card: BackboneCard | None) -> Preprocess:
    """Return a network's preprocessing: that of its weights file, if the file has a card, or that of the table."""
    entry = ZOO.get(choice.name)
    if card:
        trained, mean, std = card.preprocess.size, card.preprocess.mean, card.preprocess.std
    else:
        trained, mean, std = (entry.size, entry.mean, entry.std) if entry else timm_preprocess(choice.name)
    size = choice.size or trained
    if choice.resize and choice.resize < size:
        raise BackboneError(
            f"backbone.resize must be at least the input size of {choice.name}, {size}; got {choice.resize}"
        )
    resize = card.preprocess.resize if card and size == trained else max(size, round(size * 9 / 8))
    return Preprocess(size=size, resize=choice.resize or resize, mean=mean, std=std)
