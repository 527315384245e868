"""The dense network that a model file was made of, with a classifier: what its speed is compared with.

Its weights are random: they do not change how long it takes.
"""

from __future__ import annotations

from torch import nn

from prunus.backbone.zoo import Backbone, load_backbone
from prunus.bundle.bundle import Bundle
from prunus.bundle.manifest import DomainEntry, Manifest
from prunus.config import BackboneChoice
from prunus.masks.network import MultiDomainNet
from prunus.methods.table import adapt
from prunus.pruning.pack import pack

DOMAIN = "dense"


def dense_network(manifest: Manifest) -> nn.Module:
    """Build the network with the classifier of the first domain's size."""
    net = _dense(manifest)[1]
    return nn.Sequential(net.network, net.heads[0]).eval()


def dense_bundle(manifest: Manifest) -> Bundle:
    """Pack the same network as a model of one domain that uses everything."""
    backbone, net = _dense(manifest)
    entry = DomainEntry(classes=net.classes[DOMAIN], preprocess=next(iter(manifest.domains.values())).preprocess)
    return pack(net, backbone, {DOMAIN: entry}, {})


def _dense(manifest: Manifest) -> tuple[Backbone, MultiDomainNet]:
    backbone = load_backbone(BackboneChoice(name=manifest.backbone, weights="random", size=manifest.image_size))
    classes = next(iter(manifest.domains.values())).classes
    return backbone, adapt(backbone, {DOMAIN: classes}, "feature").eval()
