"""Hard parameter sharing: each domain has its own copy of some layers; the other layers are trained by all domains.

Zhang et al., IEEE Access 2023. They find that the early layers should be copied per domain. How much is copied is a
share of the weights, so early, late and random layers can be compared at the same size. Where a whole layer would be
too much, some of its filters are copied.
"""

import random
from collections.abc import Mapping, Sequence
from typing import Literal, cast

import torch
from pydantic import Field
from torch import Tensor, nn
from typing_extensions import override

from prunus.backbone.probe import Probe
from prunus.backbone.zoo import Backbone
from prunus.config import Settings
from prunus.masks.adapter import Adapter, Cost
from prunus.masks.layer_copies import DomainNorms, LayerCopies
from prunus.masks.layout import ConvShape, convolutions
from prunus.masks.per_domain import PerDomain
from prunus.methods.method import Method


class Options(Settings):
    """The convolutions that are copied per domain."""

    layers: Literal["early", "late", "random"] = Field(
        default="early", description="convolutions that are copied per domain: early, late or random"
    )
    share: float = Field(default=0.1, ge=0, le=1, description="share of the convolution weights that are copied")
    seed: int = Field(default=0, ge=0, description="seed of the random choice")


def copied_filters(convs: Sequence[ConvShape], options: Options) -> dict[str, int]:
    """Return the convolutions that are copied per domain, each with how many of its filters; the last may be a part."""
    order = {
        "early": lambda: list(convs),
        "late": lambda: list(reversed(convs)),
        "random": lambda: random.Random(options.seed).sample(convs, len(convs)),
    }[options.layers]()
    left = round(options.share * sum(conv.num_weights for conv in convs))
    copied = {}
    for conv in order:
        size = conv.num_weights // conv.out_channels
        copied[conv.name] = min(conv.out_channels, left // size)
        left -= copied[conv.name] * size
        if copied[conv.name] < conv.out_channels:
            break
    return {name: count for name, count in copied.items() if count}


class FilterCopies(Adapter):
    """The first filters of a convolution per domain; its other filters and its biases are trained by all domains."""

    def __init__(self, network: nn.Module, layer: str, count: int, num_domains: int) -> None:
        super().__init__()
        conv = cast("nn.Conv2d", network.get_submodule(layer))
        biases = {} if conv.bias is None else {"bias": conv.bias}
        self.layer = layer
        self.own = PerDomain({"weight": conv.weight[:count]}, num_domains)
        self.common = PerDomain({"weight": conv.weight[count:], **biases}, 1)

    @override
    def tensors(self, domain: int, frozen: Mapping[str, Tensor]) -> dict[str, Tensor]:
        common = self.common.of(0)
        whole = common | {"weight": torch.cat([self.own.of(domain)["weight"], common["weight"]])}
        return {f"{self.layer}.{name}": tensor for name, tensor in whole.items()}

    @override
    def cost(self, domain: int, run: Probe) -> Cost:
        common = {name: tensor.numel() for name, tensor in self.common.of(0).items()}
        return Cost(
            weights=self.own.of(domain)["weight"].numel(),
            shared_weights=common["weight"],
            side=0 if domain else common.get("bias", 0),
            owned=frozenset({self.layer}),
        )


def build(backbone: Backbone, classes: Sequence[int], options: Options) -> list[Adapter]:
    """Copy some convolutions per domain and the others once, and add norms per domain."""
    network = backbone.network
    convs = convolutions(network)
    copied = copied_filters(convs, options)
    whole = [conv.name for conv in convs if copied.get(conv.name) == conv.out_channels]
    others = [conv.name for conv in convs if conv.name not in copied]
    parts = {name: count for name, count in copied.items() if name not in whole}
    return [
        LayerCopies(network, whole, len(classes)),
        *(FilterCopies(network, name, count, len(classes)) for name, count in parts.items()),
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
    weight_lr=0.01,
)
