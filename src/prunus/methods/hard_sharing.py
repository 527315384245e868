"""Hard parameter sharing: each domain has its own copy of some layers; the other layers are trained by all domains.

Zhang et al., IEEE Access 2023. They find that the early layers should be copied per domain.
"""

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
    """The convolutions that are copied per domain."""

    layers: Literal["early", "late", "random"] = Field(
        default="early", description="convolutions that are copied per domain: early, late or random"
    )
    share: float = Field(default=0.5, ge=0, le=1, description="share of the convolutions that are copied")
    seed: int = Field(default=0, ge=0, description="seed of the random choice")


def copied_layers(names: list[str], options: Options) -> list[str]:
    """Return the convolutions that are copied per domain."""
    count = round(options.share * len(names))
    chosen = {
        "early": lambda: names[:count],
        "late": lambda: names[len(names) - count :],
        "random": lambda: random.Random(options.seed).sample(names, count),
    }[options.layers]()
    return [name for name in names if name in set(chosen)]


def build(backbone: Backbone, classes: Sequence[int], options: Options) -> list[Adapter]:
    """Copy some convolutions per domain and the others once, and add norms per domain."""
    network = backbone.network
    names = [conv.name for conv in convolutions(network)]
    copied = copied_layers(names, options)
    others = [name for name in names if name not in copied]
    return [
        LayerCopies(network, copied, len(classes)),
        LayerCopies(network, others, len(classes), together=True),
        DomainNorms(network, len(classes)),
    ]


METHOD = Method(
    summary="early, late or random layers per domain, the others trained together",
    paper="Zhang et al., IEEE Access 2023",
    cost="the weights of the copied layers",
    build=build,
    options=Options,
    together=True,
)
