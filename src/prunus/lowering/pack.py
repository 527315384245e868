"""From a trained network to a bundle: trace, lower, cut, pack, compare."""

import copy
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace

import numpy as np

from prunus.backbone.zoo import Backbone
from prunus.bundle.bundle import Bundle
from prunus.bundle.manifest import DomainEntry, Manifest, Provenance
from prunus.bundle.packing import to_bundle
from prunus.editing.kept_channels import record_channels
from prunus.errors import BundleError
from prunus.graph.cut import cut_with_channels
from prunus.graph.network import GraphNetwork
from prunus.lowering.build import build_graph
from prunus.lowering.same_logits import check_logits
from prunus.masks.adapter import Adapter
from prunus.masks.layer_copies import DomainNorms, SharedConvolutions
from prunus.masks.network import MultiDomainNet
from prunus.masks.pool import PooledSwitches
from prunus.masks.switches import Switches

SWITCHES = (Switches, PooledSwitches)  # other kinds of switches do more than turn kernels off


@dataclass(frozen=True)
class Description:
    """What a model file says about its network."""

    backbone: str
    dense_bytes: int
    domains: Mapping[str, DomainEntry]
    provenance: Provenance


def pack(net: MultiDomainNet, backbone: Backbone, domains: Mapping[str, DomainEntry], provenance: Provenance) -> Bundle:
    """Turn a trained network into a bundle: the channels that some domain needs, the union of all domains' kernels."""
    description = Description(backbone.name, net.dense_bytes(), domains, provenance)
    bundle = bundle_of(lower(net), description, has_switches=net.switches is not None)
    with _evaluating(net) as predicting:
        check_logits(predicting, bundle)
    return bundle


def lower(net: MultiDomainNet) -> GraphNetwork:
    """Write a network as a graph, as it predicts, with every channel."""
    if not all(_fits(adapter) for adapter in net.adapters):
        raise BundleError(
            "a model file holds kernel switches, norms and classifiers, and this run's method learns more than that; "
            "measure the run with prunus evaluate, or train one with a budget"
        )
    with _evaluating(net) as predicting:
        return build_graph(predicting)


@contextmanager
def _evaluating(net: MultiDomainNet) -> Iterator[MultiDomainNet]:
    """Return a network on the CPU whose norms compute as they predict, which may be something else in training."""
    was_training = net.training
    net.eval()
    try:
        yield net if net.device.type == "cpu" else copy.deepcopy(net).cpu()
    finally:
        net.train(was_training)


def bundle_of(network: GraphNetwork, description: Description, has_switches: bool = True) -> Bundle:
    """Cut the channels that no domain needs and pack the rest; without switches every kernel is used, zeros too."""
    small, channels = cut_with_channels(network)
    if not has_switches:
        small = replace(small, masks={layer: np.ones_like(mask) for layer, mask in small.masks.items()})
    was = {layer: weight.shape[:2] for layer, weight in network.weights.items()}
    manifest = Manifest(
        backbone=description.backbone,
        image_size=small.image_size,
        graph=small.graph,
        domains=dict(description.domains),
        dense_bytes=description.dense_bytes,
        provenance=record_channels(description.provenance, channels, was),
    )
    return to_bundle(small, manifest)


def _fits(adapter: Adapter) -> bool:
    """Return whether a model file can hold what an adapter learned: kernels, their switches, or norms."""
    if isinstance(adapter, Switches):
        return type(adapter) in SWITCHES and adapter.layout.granularity != "weight"
    return isinstance(adapter, (SharedConvolutions, DomainNorms))
