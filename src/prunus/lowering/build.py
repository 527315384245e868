"""Turn a masked network into a graph, once, with the numbers of all its domains.

Legend: D = domains, O = output channels, I = input channels of one group.
"""

from collections.abc import Mapping
from math import prod

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, fx, nn

from prunus.arrays import Bools, Floats
from prunus.errors import BundleError, NoFileError
from prunus.graph.fuse import fuse
from prunus.graph.network import GraphNetwork, Node
from prunus.graph.operations import Conv
from prunus.graph.shapes import value_shapes
from prunus.lowering.builder import GraphBuilder, NotInAGraphError, Scores
from prunus.lowering.needed_pixels import compute_needed_pixels
from prunus.lowering.rules.table import RESIZING, find_rule
from prunus.lowering.trace import trace
from prunus.lowering.views import View
from prunus.masks.network import MultiDomainNet
from prunus.masks.switches import Switches

FULL_PRECISION = (torch.float32, torch.float64)
# calls that read of their last tensor only its shape or its type -> how many tensors there are before it
ALIKE: dict[object, int] = {
    **dict.fromkeys(("to", "type_as", "expand_as", "view_as", "reshape_as"), 1),
    **dict.fromkeys((torch.zeros_like, torch.ones_like, torch.full_like, "new_zeros", "new_ones", "new_full"), 0),
}


@torch.no_grad()
def build_graph(net: MultiDomainNet) -> GraphNetwork:
    """Write a network as operations, with every domain's masks, norms and classifier."""
    traced = trace(net.network, net.image_size)
    builder = GraphBuilder(traced, _domain_tensors(net))
    for node in traced.graph.nodes:
        if node.op == "output":
            features = _features(builder, node)
            _check_shapes(builder, features, net.image_size)
            nodes = compute_needed_pixels(fuse(builder.nodes[:features]), net.image_size)
            return _assemble(net, nodes)
        _add(builder, node)
    raise AssertionError("a graph ends in its output")


def _domain_tensors(net: MultiDomainNet) -> list[dict[str, Tensor]]:
    """Return the network's tensors as each domain has them; weights under switches are left as they are."""
    tensors = dict(net.network.state_dict())
    changing = [adapter for adapter in net.adapters if not isinstance(adapter, Switches)]
    domains = []
    for domain in range(len(net.domains)):
        changes = [adapter.tensors(domain, tensors) for adapter in changing]
        domains.append({name: tensor for part in (tensors, *changes) for name, tensor in part.items()})
    return domains


def _add(builder: GraphBuilder, node: fx.Node) -> None:
    if node.op == "placeholder":
        builder.start(node.name)
        return
    numbers = node.all_input_nodes[: ALIKE.get(node.target)]  # the tensors whose numbers are read
    if not any(read.name in builder.values for read in numbers):
        builder.constants[node.name] = builder.evaluate(node)
        return
    rule = find_rule(builder, node)
    try:
        value = rule(builder, node) if rule else None
        if value is None:
            raise NotInAGraphError
        _check_type(builder, node)
    except NotInAGraphError as error:
        raise NoFileError(f"{_described(builder, node)} {error}", at_this_size=rule in RESIZING) from None
    except BundleError as error:
        raise NoFileError(str(error), at_this_size=True) from None
    builder.values[node.name] = _whole(builder, node, value) if isinstance(value, int) else value


def _features(builder: GraphBuilder, output: fx.Node) -> int:
    """Return the value that holds the network's result, in its order."""
    try:
        return builder.ordered(output.all_input_nodes[0].name)
    except NotInAGraphError as error:
        raise NoFileError(f"the classifier {error}") from None


def _described(builder: GraphBuilder, node: fx.Node) -> str:
    """Name what a graph has no operation for; where it knows the operation itself, say what is unusual about it."""
    layer = builder.traced.layer(node)
    if layer is not None:
        return f"layer {node.target!r} ({type(layer).__name__})"
    name = f"the operation {node.name!r}"
    if any(isinstance(builder.values.get(read.name), Scores) for read in node.all_input_nodes):
        return f"{name} on scores of attention"
    if node.target in (torch.softmax, F.softmax, "softmax"):
        return f"{name} of something else than scores of attention"
    return f"{name} with the weights of a layer that is not called" if node.target is F.linear else name


def _check_type(builder: GraphBuilder, node: fx.Node) -> None:
    """Refuse numbers that are rounded by their type: a graph has none but floats of full precision."""
    dtype = builder.traced.types.get(node.name, torch.float32)  # results that are several tensors have no type
    if dtype not in FULL_PRECISION:
        raise NotInAGraphError(f"rounds numbers to the type {str(dtype).removeprefix('torch.')}")


def _whole(builder: GraphBuilder, node: fx.Node, value: int) -> View:
    """Return a value that is a node's result in its order; what is lowered wrongly must not be written."""
    if prod(builder.traced.shapes[node.name]) != prod(builder.value_shapes[value]):
        raise NoFileError(f"the result {node.name!r} of the network changes its shape")
    return View(value)


def _check_shapes(builder: GraphBuilder, features: int, image_size: int) -> None:
    """Compare all shapes with those of the network: what is lowered wrongly must not be written."""
    nodes = builder.nodes[:features]
    try:
        shapes = value_shapes(tuple(node.operation for node in nodes), image_size)
    except BundleError as error:
        raise NoFileError(str(error), at_this_size=True) from None
    for node in nodes:
        expected = node.operation.tensors(shapes[node.operation.inputs[0]][0])
        if any(tensor_D.shape[1:] != expected[role] for role, tensor_D in node.tensors.items()):
            raise NoFileError("a norm goes over pixels and channels")


def _assemble(net: MultiDomainNet, nodes: tuple[Node, ...]) -> GraphNetwork:
    layers = [node.operation.layer for node in nodes if isinstance(node.operation, Conv)]
    tensors = _domain_tensors(net)[0]  # all domains have the same kernels
    weights: dict[str, Floats] = {layer: _kernels(tensors[f"{layer}.weight"]) for layer in layers}
    heads = []
    for head in net.heads:
        assert isinstance(head, nn.Linear)
        heads.append((head.weight.numpy(), head.bias.numpy()))
    return GraphNetwork(nodes, net.image_size, weights, _masks(net, weights), tuple(heads))


def _kernels(weight: Tensor) -> Floats:
    """Return weights as kernels, (O, I, height, width); those of a linear layer have one pixel."""
    kernels: Floats = weight.detach().reshape(*weight.shape[:2], *(weight.shape[2:] or (1, 1))).numpy()
    return kernels


def _masks(net: MultiDomainNet, weights: Mapping[str, Floats]) -> dict[str, Bools]:
    """Return the kernels that each domain uses, all of them where the method has no switches: layer -> (D, O, I)."""
    shapes = {layer: (len(net.domains), *weight.shape[:2]) for layer, weight in weights.items()}
    if net.switches is None:
        return {layer: np.ones(shape, np.bool_) for layer, shape in shapes.items()}
    switches = net.switches.layer_masks()
    masks = {layer: mask.reshape(*mask.shape[:3]) for layer, mask in switches.items()}  # one number per kernel
    for layer in shapes.keys() - masks.keys():
        raise NoFileError(f"layer {layer!r} has no switches")
    return {layer: masks[layer].expand(shape).numpy() for layer, shape in shapes.items()}
