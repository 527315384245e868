"""Drop every channel and kernel that no domain needs and pack the rest.

Legend: D = domains, O = output channels, I = input channels of one group.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from prunus.arrays import Array, Bools
from prunus.backbone.zoo import Backbone
from prunus.bundle.bits import pack_bits
from prunus.bundle.bundle import Bundle
from prunus.bundle.manifest import DomainEntry, Manifest
from prunus.bundle.order import to_stored
from prunus.lowering.draft import Draft
from prunus.lowering.lower import lower
from prunus.lowering.packable import check_packable, is_packable, network_masks
from prunus.lowering.plan import on_cpu, plan_pruning
from prunus.lowering.shrink import shrink
from prunus.masks.layout import convolutions
from prunus.masks.network import MultiDomainNet

__all__ = ["check_packable", "is_packable", "network_masks", "pack"]


@torch.no_grad()
def pack(
    net: MultiDomainNet, backbone: Backbone, domains: Mapping[str, DomainEntry], provenance: dict[str, Any]
) -> Bundle:
    """Turn a trained network into a bundle: the channels that some domain needs, the union of all domains' kernels."""
    check_packable(net)
    net = on_cpu(net)
    small = shrink(net, plan_pruning(net))
    was = {conv.name: (conv.out_channels, conv.in_channels) for conv in convolutions(net.network)}
    drafts = lower(small, was)
    manifest = Manifest(
        backbone=backbone.name,
        image_size=net.image_size,
        graph=tuple(draft.operation for draft in drafts),
        domains=dict(domains),
        dense_bytes=net.dense_bytes(),
        provenance=provenance,
    )
    masks = _shrunk_masks(small, has_switches=net.switches is not None)
    arrays = _convolutions(small, manifest, masks) | _tensors(drafts, small.domains)
    for index, name in enumerate(small.domains):
        arrays |= {f"head/{name}/{key}": _array(tensor) for key, tensor in small.heads[index].named_parameters()}
    return Bundle(manifest, arrays)


def _shrunk_masks(small: MultiDomainNet, has_switches: bool) -> dict[str, Bools]:
    """Give the masks of a shrunk network by the names that its convolutions had: layer -> (D, O, I).

    A kernel that a domain has switched on, but whose result it does not read, is off here.
    """
    assert small.switches is not None
    found = {layer: mask[..., 0, 0].numpy() for layer, mask in small.switches.layer_masks().items()}
    return {layer: mask if has_switches else np.ones_like(mask) for layer, mask in found.items()}


def _convolutions(small: MultiDomainNet, manifest: Manifest, masks: Mapping[str, Bools]) -> dict[str, Array]:
    arrays: dict[str, Array] = {}
    for layer, entry in manifest.convs.items():
        own = layer if layer in masks else f"{layer}.conv"  # some stand inside a layer that adds constants
        conv, mask_DOI = small.network.get_submodule(own), masks[own]
        assert isinstance(conv, nn.Conv2d)
        kept = to_stored(np.logical_or.reduce(mask_DOI, axis=0), entry)
        arrays[f"union/{layer}"] = pack_bits(kept)
        arrays[f"kernels/{layer}"] = to_stored(conv.weight.detach().numpy(), entry)[kept]
        for name, mask_OI in zip(small.domains, mask_DOI, strict=True):
            arrays[f"mask/{name}/{layer}"] = pack_bits(to_stored(mask_OI, entry)[kept])
    return arrays


def _tensors(drafts: Sequence[Draft], domains: Sequence[str]) -> dict[str, Array]:
    """Name the operations' tensors, those that are the same in all domains once."""
    arrays: dict[str, Array] = {}
    for number, draft in enumerate(drafts):
        for role, tensor_D in draft.tensors.items():
            rows = tensor_D.astype(np.float32)
            if (rows == rows[0]).all():
                arrays[f"shared/{number}.{role}"] = rows[0]
            else:
                arrays |= {f"norm/{name}/{number}.{role}": row for name, row in zip(domains, rows, strict=True)}
    return arrays


def _array(tensor: Tensor) -> Array:
    array: Array = tensor.detach().cpu().contiguous().numpy()
    return array
