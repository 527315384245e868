"""Networks of the zoo with random masks and norms for several domains, and the model files that they become."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache

import torch
from torch import Tensor

from prunus.backbone.zoo import Backbone, load_backbone
from prunus.bundle.bundle import Bundle
from prunus.bundle.manifest import DomainEntry
from prunus.config import BackboneChoice
from prunus.masks.network import MultiDomainNet
from prunus.methods.table import adapt
from prunus.pruning.pack import pack

Classes = Mapping[str, tuple[str, ...]]
MODES = ("dead channels", "sparse", "everything on", "dead in one domain", "unread inputs", "layer off")


@cache
def zoo_backbone(name: str, size: int) -> Backbone:
    """Load a network of the zoo; those of timm with random weights."""
    return load_backbone(BackboneChoice(name=name, weights="random" if "/" in name else "pretrained", size=size))


def masked_network(backbone: Backbone, classes: Classes, modes: Sequence[str], seed: int = 5) -> MultiDomainNet:
    """Give every convolution one kind of masks after the other, and every domain norms of its own."""
    net = adapt(backbone, classes, "union")
    generator = torch.Generator().manual_seed(seed)
    assert net.switches is not None
    with torch.no_grad():
        for name, tensor in [*net.named_parameters(), *net.named_buffers()]:
            if not name.startswith("network.") and ("running_mean" in name or tensor.requires_grad):
                tensor.add_(torch.randn(tensor.shape, generator=generator) * 0.1)
        scores = net.switches.scores_DM.fill_(1.0)
        for index, view in enumerate(net.switches.layout.views(scores).values()):
            switch_off(view, modes[index % len(modes)], generator)
    return net.eval()


def switch_off(scores_DOI: Tensor, mode: str, generator: torch.Generator) -> None:
    """Switch some kernels of a layer off, in one of the ways that matter to pruning."""

    def drawn(share: float, *shape: int) -> Tensor:
        return torch.rand(shape, generator=generator) < share

    domains, outputs, inputs = scores_DOI.shape[:3]
    off = {
        "everything on": lambda: torch.zeros(domains, outputs, inputs, dtype=torch.bool),
        "layer off": lambda: torch.ones(domains, outputs, inputs, dtype=torch.bool),
        "dead channels": lambda: drawn(0.4, 1, outputs, 1),
        "dead in one domain": lambda: drawn(0.4, 1, outputs, 1) & (torch.arange(domains) == 0)[:, None, None],
        "unread inputs": lambda: drawn(0.4, 1, 1, inputs),
        "sparse": lambda: drawn(0.8, domains, outputs, inputs),
        "half": lambda: drawn(0.5, domains, outputs, inputs),
    }[mode]()
    scores_DOI[off.expand(domains, outputs, inputs)] = -1


def packed(net: MultiDomainNet, backbone: Backbone, classes: Classes) -> Bundle:
    """Make the model file's content of a network."""
    entries = {name: DomainEntry(classes=names, preprocess=backbone.preprocess) for name, names in classes.items()}
    return pack(net, backbone, entries, {})
