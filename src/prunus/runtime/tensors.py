"""The dense tensors that one domain computes with."""

from __future__ import annotations

from prunus.arrays import Floats
from prunus.bundle.bundle import Bundle
from prunus.graph.operations import Conv

DomainTensors = list[dict[str, Floats]]  # one dict per operation: role -> tensor, with a convolution's weight


def domain_tensors(bundle: Bundle, domain: str) -> DomainTensors:
    """Return the tensors of one domain; kernels that it does not use are zeros."""
    result: DomainTensors = []
    for number, operation in enumerate(bundle.manifest.graph):
        roles = operation.tensors(bundle.manifest.shapes[operation.inputs[0]][0])
        tensors = {role: tensor for role in roles if (tensor := bundle.tensor(domain, number, role)) is not None}
        if isinstance(operation, Conv):
            tensors["weight"] = bundle.weight(operation.layer, bundle.mask(domain, operation.layer))
        result.append(tensors)
    return result
