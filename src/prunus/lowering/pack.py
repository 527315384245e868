"""From a trained network to a bundle: trace, lower, cut, pack."""

import copy
from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from prunus.backbone.zoo import Backbone
from prunus.bundle.bundle import Bundle
from prunus.bundle.manifest import DomainEntry, Manifest, Provenance
from prunus.bundle.packing import to_bundle
from prunus.errors import BundleError
from prunus.graph.cut import cut
from prunus.lowering.build import build_graph
from prunus.masks.adapter import Adapter
from prunus.masks.layer_copies import DomainNorms
from prunus.masks.network import MultiDomainNet
from prunus.masks.switches import Switches


def pack(net: MultiDomainNet, backbone: Backbone, domains: Mapping[str, DomainEntry], provenance: Provenance) -> Bundle:
    """Turn a trained network into a bundle: the channels that some domain needs, the union of all domains' kernels."""
    if not all(_fits(adapter) for adapter in net.adapters):
        raise BundleError(
            "a model file holds kernel switches, norms and classifiers, and this run's method learns more than that; "
            "measure the run with prunus evaluate, or train one with a budget"
        )
    network = cut(build_graph(net if net.device.type == "cpu" else copy.deepcopy(net).cpu()))
    if net.switches is None:  # a method without switches uses every kernel, zeros too
        network = replace(network, masks={layer: np.ones_like(mask) for layer, mask in network.masks.items()})
    manifest = Manifest(
        backbone=backbone.name,
        image_size=net.image_size,
        graph=network.graph,
        domains=dict(domains),
        dense_bytes=net.dense_bytes(),
        provenance=provenance,
    )
    return to_bundle(network, manifest)


def _fits(adapter: Adapter) -> bool:
    """Return whether a model file can hold what an adapter learned: kernel switches or norms."""
    is_switches = type(adapter) is Switches and adapter.layout.granularity != "weight"
    return is_switches or isinstance(adapter, DomainNorms)
