"""The three baselines: a classifier, norms, or a whole network per domain."""

from collections.abc import Sequence

from prunus.backbone.zoo import Backbone
from prunus.masks.adapter import Adapter
from prunus.masks.layer_copies import DomainNorms, LayerCopies
from prunus.methods.method import Method, NoOptions


def build_feature(backbone: Backbone, classes: Sequence[int], options: NoOptions) -> list[Adapter]:
    """Change nothing."""
    return []


def build_bn(backbone: Backbone, classes: Sequence[int], options: NoOptions) -> list[Adapter]:
    """Add norms per domain."""
    return [DomainNorms(backbone.network, len(classes))]


def build_finetune(backbone: Backbone, classes: Sequence[int], options: NoOptions) -> list[Adapter]:
    """Copy the whole network per domain."""
    return [LayerCopies(backbone.network, [name for name, _ in backbone.network.named_modules()], len(classes))]


FEATURE = Method(
    summary="the frozen backbone with a classifier per domain",
    paper="baseline: feature extractor",
    cost="nothing",
    build=build_feature,
    packable=True,
)
BN = Method(
    summary="a classifier and batch norms per domain",
    paper="Bilen and Vedaldi, 2017",
    cost="norms",
    build=build_bn,
    packable=True,
)
FINETUNE = Method(
    summary="a whole network per domain, every weight trained",
    paper="baseline: fine-tuning",
    cost="a network",
    weight_lr=0.01,
    build=build_finetune,
)
