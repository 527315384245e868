"""The dense network that a model file was made of, with a classifier: what its speed is compared with.

Its weights are random: they do not change how long it takes.
"""

from __future__ import annotations

from torch import nn

from prunus.backbone.zoo import ZOO, Backbone, load_backbone
from prunus.bundle.bundle import Bundle
from prunus.bundle.manifest import DomainEntry, Manifest
from prunus.config import BackboneChoice
from prunus.errors import PrunusError
from prunus.lowering.pack import pack
from prunus.masks.network import MultiDomainNet
from prunus.methods.table import adapt

DOMAIN = "dense"


def dense_network(manifest: Manifest) -> nn.Module:
    """Build the network with the classifier of the first domain's size."""
    net = _dense(_choice(manifest), _classes(manifest))[1]
    return nn.Sequential(net.network, net.heads[0]).eval()


def dense_bundle(manifest: Manifest) -> Bundle:
    """Pack the same network as a model of one domain that uses everything."""
    return _pack(_choice(manifest), _classes(manifest))


def why_not_a_file(choice: BackboneChoice) -> str | None:
    """Say what hinders a network from being written as a model file, if anything does."""
    if choice.name in ZOO:
        return None  # the tests write them all
    try:
        _pack(choice.model_copy(update={"weights": "random"}), ("one", "two"))
    except PrunusError as error:
        return str(error)
    return None


def _choice(manifest: Manifest) -> BackboneChoice:
    return BackboneChoice(name=manifest.backbone, weights="random", size=manifest.image_size)


def _classes(manifest: Manifest) -> tuple[str, ...]:
    return next(iter(manifest.domains.values())).classes


def _dense(choice: BackboneChoice, classes: tuple[str, ...]) -> tuple[Backbone, MultiDomainNet]:
    backbone = load_backbone(choice)
    return backbone, adapt(backbone, {DOMAIN: classes}, "feature").eval()


def _pack(choice: BackboneChoice, classes: tuple[str, ...]) -> Bundle:
    backbone, net = _dense(choice, classes)
    return pack(net, backbone, {DOMAIN: DomainEntry(classes=classes, preprocess=backbone.preprocess)}, {})
