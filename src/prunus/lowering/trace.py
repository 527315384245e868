"""A network as a graph of operations, with the shape of every result."""

from __future__ import annotations

import operator
from dataclasses import dataclass

import torch
from torch import Tensor, fx, nn

from prunus.errors import BackboneError
from prunus.masks.layer_copies import is_norm


@dataclass(frozen=True)
class TracedNetwork:
    """A network's graph, and the shapes of its tensors for one image."""

    module: fx.GraphModule
    shapes: dict[str, tuple[int, ...]]

    def layer(self, node: fx.Node) -> nn.Module | None:
        """Give the layer that a node calls, if it calls one."""
        return self.module.get_submodule(str(node.target)) if node.op == "call_module" else None


def trace(network: nn.Module, size: int) -> TracedNetwork:
    """Trace a network down to its layers; the network's own modules are used, not copied."""
    try:
        module = fx.GraphModule(network, _after_changes(_LayerTracer().trace(network), network))
    except Exception as error:  # tracing runs the network's own code, which may fail in any way
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise BackboneError(
            f"the network cannot be traced as a graph ({reason}), so that no channel can be removed; "
            "choose a network without control flow that depends on images"
        ) from error
    return TracedNetwork(module, follow_shapes(module, size))


def follow_shapes(module: fx.GraphModule, size: int) -> dict[str, tuple[int, ...]]:
    """Run one blank image through a graph: result -> its shape."""
    return _Shapes(module).record(size)


def _after_changes(graph: fx.Graph, network: nn.Module) -> fx.Graph:
    """Let whoever uses a tensor after it was changed in place use the change's result, which is the same tensor."""
    nodes = list(graph.nodes)
    for place, node in enumerate(nodes):
        if _changes_its_input(node, network):
            source = node.all_input_nodes[0]
            for later in nodes[place + 1 :]:
                later.replace_input_with(source, node)
    return graph


def _changes_its_input(node: fx.Node, network: nn.Module) -> bool:
    if node.op == "call_module":
        return bool(getattr(network.get_submodule(str(node.target)), "inplace", False))
    if node.op == "call_method":
        return str(node.target).endswith("_") and not str(node.target).endswith("__")
    in_place = (operator.iadd, operator.imul, operator.isub, operator.itruediv)
    return node.op == "call_function" and (node.target in in_place or bool(node.kwargs.get("inplace", False)))


class _LayerTracer(fx.Tracer):
    """Goes into every module that is not a layer of torch or a norm."""

    def is_leaf_module(self, m: nn.Module, module_qualified_name: str) -> bool:
        return is_norm(m) or isinstance(m, nn.Conv2d) or super().is_leaf_module(m, module_qualified_name)


class _Shapes(fx.Interpreter):
    @torch.no_grad()
    def record(self, size: int) -> dict[str, tuple[int, ...]]:
        self.found: dict[str, tuple[int, ...]] = {}
        was_training = self.module.training
        self.module.eval()
        self.run(torch.zeros(1, 3, size, size))
        self.module.train(was_training)
        return self.found

    def run_node(self, n: fx.Node) -> object:
        result = super().run_node(n)
        if isinstance(result, Tensor):
            self.found[n.name] = tuple(result.shape)
        return result
