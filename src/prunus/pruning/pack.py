"""Drop every kernel that no domain uses and pack the rest."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor

from prunus.backbone.zoo import Backbone
from prunus.bundle.bits import Bools, pack_bits
from prunus.bundle.bundle import Array, Bundle
from prunus.bundle.manifest import ConvEntry, DomainEntry, Manifest
from prunus.errors import BundleError
from prunus.masks.copies import COUNTERS, DomainNorms
from prunus.masks.layout import convolutions
from prunus.masks.network import MultiDomainNet
from prunus.masks.switches import Switches
from prunus.pruning.fold import fold_norms


@torch.no_grad()
def pack(
    net: MultiDomainNet, backbone: Backbone, domains: Mapping[str, DomainEntry], provenance: dict[str, Any]
) -> Bundle:
    """Turn a trained network into a bundle with the union of all domains' kernels."""
    check_packable(net)
    masks, frozen = network_masks(net), net.network.state_dict()
    arrays: dict[str, Array] = {}
    for layer, mask_DOI in masks.items():
        kept_OI = np.logical_or.reduce(mask_DOI, axis=0)
        arrays[f"union/{layer}"] = pack_bits(kept_OI)
        arrays[f"kernels/{layer}"] = _array(frozen[f"{layer}.weight"])[kept_OI]
        arrays |= {f"mask/{name}/{layer}": pack_bits(m[kept_OI]) for name, m in zip(net.domains, mask_DOI, strict=True)}
    weights = {f"{layer}.weight" for layer in masks}
    own: set[str] = set()
    for index, name in enumerate(net.domains):
        changed = {
            key: tensor
            for key, tensor in net.tensors(name).items()
            if key not in weights and not key.endswith(COUNTERS)
        }
        folded = fold_norms(net.network, changed)
        arrays |= {f"norm/{name}/{key}": _array(tensor) for key, tensor in folded.items()}
        arrays |= {f"head/{name}/{key}": _array(tensor) for key, tensor in net.heads[index].named_parameters()}
        own |= changed.keys()
    rest = {key: frozen[key] for key in sorted(frozen.keys() - weights - own) if not key.endswith(COUNTERS)}
    arrays |= {f"shared/{key}": _array(tensor) for key, tensor in fold_norms(net.network, rest).items()}
    return Bundle(_manifest(net, backbone, domains, provenance), arrays)


def is_packable(net: MultiDomainNet) -> bool:
    """Tell whether a model file can hold what a method learned: kernel switches and norms."""
    return all(
        isinstance(adapter, DomainNorms) or (type(adapter) is Switches and adapter.layout.granularity != "weight")
        for adapter in net.adapters
    )


def check_packable(net: MultiDomainNet) -> None:
    """Refuse a method that changes more than a model file holds."""
    if not is_packable(net):
        raise BundleError(
            "a model file holds kernel switches, norms and classifiers, and this run's method learns more than that; "
            "measure the run with prunus evaluate, or train one with a budget"
        )


def network_masks(net: MultiDomainNet) -> dict[str, Bools]:
    """Give a network's masks as arrays, all on where its method has no switches: layer -> (domain, output, input)."""
    if net.switches:
        shapes = {conv.name: (conv.out_channels, conv.in_channels) for conv in net.switches.layout.convs}
        return {
            layer: mask[..., 0, 0].expand(-1, *shapes[layer]).cpu().numpy()
            for layer, mask in net.switches.layer_masks().items()
        }
    return {
        c.name: np.ones((len(net.domains), c.out_channels, c.in_channels), np.bool_) for c in convolutions(net.network)
    }


def _manifest(
    net: MultiDomainNet, backbone: Backbone, domains: Mapping[str, DomainEntry], provenance: dict[str, Any]
) -> Manifest:
    convs = {
        conv.name: ConvEntry(
            out_channels=conv.out_channels,
            in_channels=conv.in_channels,
            kernel=conv.kernel,
            positions=backbone.probe.positions[conv.name],
        )
        for conv in convolutions(net.network)
    }
    return Manifest(
        backbone=backbone.name,
        num_features=backbone.probe.num_features,
        domains=dict(domains),
        convs=convs,
        dense_bytes=net.dense_bytes(),
        provenance=provenance,
    )


def _array(tensor: Tensor) -> Array:
    array: Array = tensor.detach().cpu().contiguous().numpy()
    return array
