"""What one domain computes with: the numbers of every operation of a bundle's graph, dense."""

from __future__ import annotations

from prunus.arrays import Floats
from prunus.bundle.bundle import Bundle
from prunus.graph.operations import Conv

DomainTensors = list[dict[str, Floats]]  # of every operation, by role: a convolution's weight too


def domain_tensors(bundle: Bundle, domain: str) -> DomainTensors:
    """Give all tensors of one domain; kernels that it does not use are zeros."""
    weights = {layer: bundle.weight(layer, bundle.mask(domain, layer)) for layer in bundle.manifest.convs}
    found: DomainTensors = []
    for number, operation in enumerate(bundle.manifest.graph):
        roles = operation.tensors(bundle.manifest.shapes[operation.inputs[0]][0])
        own = {role: tensor for role in roles if (tensor := bundle.tensor(domain, number, role)) is not None}
        found.append(own | ({"weight": weights[operation.layer]} if isinstance(operation, Conv) else {}))
    return found
