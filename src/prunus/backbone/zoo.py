"""The table of bundled networks; all others come from timm."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor, nn

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
    if choice.weights != "random":
        tensors = _pretrained(choice.name) if choice.weights == "pretrained" else read_weights(Path(choice.weights))
        fill(network, tensors, choice.name)
    network = bake_standardized(network)
    preprocess = _preprocess(choice)
    return Backbone(choice.name, network, preprocess, probe_network(network, preprocess.size))


def _build(name: str) -> nn.Module:
    if name in ZOO:
        return ZOO[name].build()
    if name.startswith(TIMM_PREFIX):
        return build_timm(name)
    raise UnknownNameError("backbone", name, [*ZOO, f"{TIMM_PREFIX}<any timm network>", *timm_names(name)])


def _pretrained(name: str) -> Mapping[str, Tensor]:
    if name in ZOO:
        return read_weights(bundled("backbones") / ZOO[name].file)
    return read_weights(fetch_timm_weights(name))


def _preprocess(choice: BackboneChoice) -> Preprocess:
    entry = ZOO.get(choice.name)
    size, mean, std = (entry.size, entry.mean, entry.std) if entry else timm_preprocess(choice.name)
    size = choice.size or size
    if choice.resize and choice.resize < size:
        raise BackboneError(
            f"backbone.resize must be at least the input size of {choice.name}, {size}; got {choice.resize}"
        )
    return Preprocess(size=size, resize=choice.resize or max(size, round(size * 9 / 8)), mean=mean, std=std)
