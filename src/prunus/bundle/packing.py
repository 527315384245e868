"""Convert a network of the graph to a bundle, and back.

Legend: D = domains, O = output channels, I = input channels of one group.
"""

from collections.abc import Sequence

import numpy as np

from prunus.arrays import Array
from prunus.bundle.bundle import Bundle
from prunus.bundle.coding.bits import pack_bits
from prunus.bundle.kernel_order import to_stored
from prunus.bundle.manifest import Manifest
from prunus.graph.network import GraphNetwork, Node


def to_bundle(network: GraphNetwork, manifest: Manifest) -> Bundle:
    """Pack the kernels that any domain uses, and every domain's masks, tensors and classifier."""
    arrays = _convolutions(network, manifest) | _tensors(network, tuple(manifest.domains))
    for domain, (weight, bias) in zip(manifest.domains, network.heads, strict=True):
        arrays |= {f"head/{domain}/weight": weight, f"head/{domain}/bias": bias}
    return Bundle(manifest, arrays)


def _convolutions(network: GraphNetwork, manifest: Manifest) -> dict[str, Array]:
    arrays: dict[str, Array] = {}
    for layer, conv in manifest.convs.items():
        mask_DOI = network.masks[layer]
        union = to_stored(np.logical_or.reduce(mask_DOI), conv)
        arrays[f"union/{layer}"] = pack_bits(union)
        arrays[f"kernels/{layer}"] = to_stored(network.weights[layer], conv)[union]
        for domain, mask_OI in zip(manifest.domains, mask_DOI, strict=True):
            arrays[f"mask/{domain}/{layer}"] = pack_bits(to_stored(mask_OI, conv)[union])
    return arrays


def _tensors(network: GraphNetwork, domains: Sequence[str]) -> dict[str, Array]:
    """Return the tensors of the operations; those that are the same in all domains are stored once."""
    arrays: dict[str, Array] = {}
    for number, node in enumerate(network.nodes):
        for role, tensor_D in node.tensors.items():
            rows = tensor_D.astype(np.float32)
            if (rows == rows[0]).all():
                arrays[f"shared/{number}.{role}"] = rows[0]
            else:
                arrays |= {f"norm/{domain}/{number}.{role}": row for domain, row in zip(domains, rows, strict=True)}
    return arrays


def from_bundle(bundle: Bundle, domains: Sequence[str]) -> GraphNetwork:
    """Return the network of some domains of a bundle, with the channels of all domains."""
    manifest = bundle.manifest
    nodes = []
    for number, operation in enumerate(manifest.graph):
        roles = operation.tensors(manifest.shapes[operation.inputs[0]][0])
        rows = {role: [bundle.tensor(domain, number, role) for domain in domains] for role in roles}
        present = {role: [row for row in rows_D if row is not None] for role, rows_D in rows.items()}
        tensors = {role: np.stack(rows_D).astype(np.float64) for role, rows_D in present.items() if rows_D}
        nodes.append(Node(operation, tensors))
    return GraphNetwork(
        tuple(nodes),
        manifest.image_size,
        {layer: bundle.weight(layer, bundle.union(layer)) for layer in manifest.convs},
        {layer: np.stack([bundle.mask(domain, layer) for domain in domains]) for layer in manifest.convs},
        tuple(bundle.head(domain) for domain in domains),
    )
