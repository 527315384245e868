"""The dense network that a model file was pruned from, with a classifier: the reference of its speed.

Its weights are random, since they do not change how long it takes.
"""

from functools import lru_cache

from torch import nn

from prunus.backbone.own.registry import TIMM_PREFIX
from prunus.backbone.zoo import ZOO, Backbone, load_backbone
from prunus.bundle.bundle import Bundle
from prunus.bundle.manifest import DomainEntry, Manifest
from prunus.config import BackboneChoice, Recipe
from prunus.errors import NoFileError, PrunusError
from prunus.lowering.pack import pack
from prunus.masks.network import MultiDomainNet
from prunus.methods.table import adapt, choose_method

DOMAIN = "dense"


def dense_network(manifest: Manifest) -> nn.Module:
    """Build the dense network with a classifier as large as the first domain's."""
    _, net = _dense(_choice(manifest), _classes(manifest))
    return nn.Sequential(net.network, net.heads[0]).eval()


def dense_bundle(manifest: Manifest) -> Bundle:
    """Pack the same network as a model of one domain that uses every kernel."""
    classes = _classes(manifest)
    return _pack(*_dense(_choice(manifest), classes), classes)


def why_not_a_file(choice: BackboneChoice) -> str | None:
    """Return the reason why a network cannot be written as a model file, if there is one."""
    if choice.name in ZOO:
        return None  # tests write all of them
    dense = _dense(choice.model_copy(update={"weights": "random"}), ("one", "two"))  # what fails here cannot be trained
    try:
        _pack(*dense, ("one", "two"))
    except NoFileError as error:
        if error.at_this_size and (own_size := _size_with_a_file(choice.name)):
            return f"at {choice.size} px, {error.reason}; set backbone.size = {own_size}, its own size, for a file"
        return f"{error.reason}; {error.advice}"
    except PrunusError as error:
        return str(error)
    return None


@lru_cache  # a command asks twice, and this takes seconds
def _size_with_a_file(name: str) -> int | None:
    """Return the own size of a network of timm if it can be written as a model file at that size."""
    if not name.startswith(TIMM_PREFIX):
        return None
    dense = _dense(BackboneChoice(name=name, weights="random"), ("one", "two"))
    try:
        _pack(*dense, ("one", "two"))
    except PrunusError:
        return None
    return dense[0].preprocess.size


def file_warning(recipe: Recipe) -> str | None:
    """Return a warning for users who may expect a model file of a network that cannot be one."""
    reason = why_not_a_file(recipe.backbone) if choose_method(recipe).method.packable else None
    return reason and f"this network can be trained and measured, but not written as a model file: {reason}"


def _choice(manifest: Manifest) -> BackboneChoice:
    return BackboneChoice(name=manifest.backbone, weights="random", size=manifest.image_size)


def _classes(manifest: Manifest) -> tuple[str, ...]:
    return next(iter(manifest.domains.values())).classes


def _dense(choice: BackboneChoice, classes: tuple[str, ...]) -> tuple[Backbone, MultiDomainNet]:
    backbone = load_backbone(choice)
    return backbone, adapt(backbone, {DOMAIN: classes}, "feature").eval()


def _pack(backbone: Backbone, net: MultiDomainNet, classes: tuple[str, ...]) -> Bundle:
    return pack(net, backbone, {DOMAIN: DomainEntry(classes=classes, preprocess=backbone.preprocess)}, {})
