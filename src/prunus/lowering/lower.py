"""Turn a network into the operations of a graph, with every domain's numbers."""

from __future__ import annotations

from collections.abc import Mapping
from math import prod

import torch
from torch import fx

from prunus.errors import BackboneError, BundleError
from prunus.graph.shapes import value_shapes
from prunus.lowering.draft import Draft
from prunus.lowering.fuse import fuse
from prunus.lowering.lower_calls import lower_call
from prunus.lowering.lower_layers import lower_layer
from prunus.lowering.lowering import Lowering, is_size
from prunus.lowering.trace import TracedNetwork, follow_shapes
from prunus.masks.network import MultiDomainNet

ADVICE = "no model file can hold it; choose another network, or measure the run itself with: prunus evaluate RUN"


@torch.no_grad()
def lower(net: MultiDomainNet, was: Mapping[str, tuple[int, int]]) -> list[Draft]:
    """Write a shrunk network as operations; `was` are the channels of its convolutions before it was shrunk."""
    assert isinstance(net.network, fx.GraphModule)
    lowering = Lowering(net, TracedNetwork(net.network, follow_shapes(net.network, net.image_size)), was)
    for node in net.network.graph.nodes:
        if node.op == "output":
            features = lowering.values[node.all_input_nodes[0].name]
            _check_shapes(lowering, features, net.image_size)
            return fuse(lowering.drafts[:features])
        _take(lowering, node)
    raise AssertionError("a graph ends in its output")


def _take(lowering: Lowering, node: fx.Node) -> None:
    if node.op == "placeholder":
        lowering.values[node.name] = 0
    elif is_size(node) or not any(each.name in lowering.values for each in node.all_input_nodes):
        lowering.constants[node.name] = lowering.evaluate(node)
    else:
        layer = lowering.traced.layer(node)
        value = lower_call(lowering, node) if layer is None else lower_layer(lowering, node)
        if value is None:
            what = (
                f"the operation {node.name!r}" if layer is None else f"layer {node.target!r} ({type(layer).__name__})"
            )
            raise BackboneError(f"{what} is not among those of a model file's graph, so that {ADVICE}")
        lowering.values[node.name] = value


def _check_shapes(lowering: Lowering, features: int, image_size: int) -> None:
    """Compare all shapes with those of the network: what is lowered wrongly must not be written."""
    try:
        shapes = value_shapes(tuple(draft.operation for draft in lowering.drafts[:features]), image_size)
    except BundleError as error:
        raise BackboneError(f"{error}, so that {ADVICE}") from None
    for draft in lowering.drafts[:features]:
        wanted = draft.operation.tensors(shapes[draft.operation.inputs[0]][0])
        if any(tensor.shape[1:] != wanted[role] for role, tensor in draft.tensors.items()):
            raise BackboneError(f"a norm goes over pixels and channels, so that {ADVICE}")
    for name, value in lowering.values.items():
        if value <= features and prod(lowering.traced.shapes[name]) != prod(shapes[value]):
            raise BackboneError(f"the result {name!r} of the network changes its shape, so that {ADVICE}")
