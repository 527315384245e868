"""Hard parameter sharing: some layers belong to one domain each, all others are trained by all domains together.

Zhang et al., IEEE Access 2023, who find that the early layers should be the domains' own.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Literal

from pydantic import Field

from prunus.backbone.zoo import Backbone
from prunus.config import Settings
from prunus.masks.adapter import Adapter
from prunus.masks.layer_copies import DomainNorms, LayerCopies
from prunus.masks.layout import convolutions
from prunus.methods.method import Method


class Options(Settings):
    """Which convolutions are a domain's own."""

    layers: Literal["early", "late", "random"] = Field(
        default="early", description="which convolutions are a domain's own: early, late or random"
    )
    share: float = Field(default=0.5, ge=0, le=1, description="of the convolutions")
    seed: int = Field(default=0, ge=0, description="which layers are random")


def own_layers(names: list[str], options: Options) -> list[str]:
    """Choose the convolutions that every domain has for itself."""
    count = round(options.share * len(names))
    chosen = {
        "early": lambda: names[:count],
        "late": lambda: names[len(names) - count :],
        "random": lambda: random.Random(options.seed).sample(names, count),
    }[options.layers]()
    return [name for name in names if name in set(chosen)]


def build(backbone: Backbone, classes: Sequence[int], options: Options) -> list[Adapter]:
    """Copy some convolutions per domain and the others once, and give every domain its own norms."""
    network = backbone.network
    names = [conv.name for conv in convolutions(network)]
    own = own_layers(names, options)
    others = [name for name in names if name not in own]
    return [
        LayerCopies(network, own, len(classes)),
        LayerCopies(network, others, len(classes), together=True),
        DomainNorms(network, len(classes)),
    ]


METHOD = Method(
    summary="early, late or random layers per domain, the others trained together",
    paper="Zhang et al., IEEE Access 2023",
    cost="the weights of its own layers",
    build=build,
    options=Options,
    together=True,
)
