"""Models with random weights and random masks, for measurements without training."""

from __future__ import annotations

import torch

from prunus.backbone.zoo import Backbone
from prunus.bundle.bundle import Bundle
from prunus.bundle.manifest import DomainEntry
from prunus.granularity import Granularity
from prunus.lowering.pack import pack
from prunus.methods.kernel_switches import Options
from prunus.methods.table import adapt

CLASSES = ("a", "b")


def random_model(
    backbone: Backbone,
    sparsity: float,
    domains: tuple[str, ...] = ("domain",),
    granularity: Granularity = "kernel",
) -> Bundle:
    """Pack a network in which each domain uses its own random kernels, or random blocks of them."""
    options = Options(granularity=granularity)
    net = adapt(backbone, dict.fromkeys(domains, CLASSES), "union", options=options).eval()
    assert net.switches is not None
    scores = net.switches.scores_DM
    generator = torch.Generator().manual_seed(0)
    with torch.no_grad():
        scores.copy_(torch.where(torch.rand(scores.shape, generator=generator) < sparsity, -1.0, 1.0))
    entry = DomainEntry(classes=CLASSES, preprocess=backbone.preprocess)
    return pack(net, backbone, dict.fromkeys(domains, entry), {})
