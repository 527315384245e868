"""A network of two convolutions and two domains, trained in milliseconds."""

from __future__ import annotations

import torch
from torch import nn

from prunus.backbone.probe import probe_network
from prunus.backbone.zoo import Backbone
from prunus.checkpoints.checkpoint import Identity
from prunus.config import Recipe
from prunus.images import Preprocess
from prunus.masks.network import MultiDomainNet
from prunus.methods.table import adapt
from prunus.recipes import parse_recipe

CLASSES = {"a": ["x", "y"], "b": ["x", "y", "z"]}
PREPROCESS = Preprocess(size=9, resize=9, mean=(0, 0, 0), std=(1, 1, 1))


def tiny_recipe(**changes: object) -> Recipe:
    """Return a recipe for the two domains."""
    content: dict[str, object] = {"preset": "paper", "backbone": "wrn14_2", "domains": ["a", "b"], "budget": 0.3}
    return parse_recipe(content | changes)


def tiny_backbone() -> Backbone:
    """Return a network with random weights, the same each time."""
    torch.manual_seed(0)
    network = nn.Sequential(
        nn.Conv2d(3, 6, 3), nn.BatchNorm2d(6), nn.ReLU(), nn.Conv2d(6, 5, 3), nn.AdaptiveAvgPool2d(1), nn.Flatten()
    )
    return Backbone("tiny", network, PREPROCESS, probe_network(network, 9))


def tiny_net(method: str = "union") -> MultiDomainNet:
    """Return the network with random switches."""
    net = adapt(tiny_backbone(), CLASSES, method)
    if net.switches:
        with torch.no_grad():
            net.switches.scores_DM.copy_(torch.randn(net.switches.scores_DM.shape) * 0.01)
    return net


def tiny_identity(recipe: Recipe) -> Identity:
    """Return what a checkpoint of the two domains belongs to."""
    return Identity(
        recipe=recipe,
        backbone="of two convolutions",
        domains={name: f"images of {name}" for name in CLASSES},
        classes={name: tuple(labels) for name, labels in CLASSES.items()},
        preprocess=dict.fromkeys(CLASSES, PREPROCESS),
    )
