"""Record what a network computes: every call of a layer, a function or a method, with the shape of its result."""

import operator
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import torch
from torch import Tensor, fx, nn

from prunus.errors import BackboneError
from prunus.masks.layer_copies import is_norm


@dataclass(frozen=True)
class TracedNetwork:
    """The trace of a network, and the shapes of its results for one image."""

    module: fx.GraphModule
    shapes: dict[str, tuple[int, ...]]

    def layer(self, node: fx.Node) -> nn.Module | None:
        """Return the layer that a node calls, if it calls one."""
        return self.module.get_submodule(str(node.target)) if node.op == "call_module" else None


def trace(network: nn.Module, size: int) -> TracedNetwork:
    """Trace a network in evaluation mode down to its layers; its modules are used, not copied."""
    with _evaluating(network):
        try:
            module = fx.GraphModule(network, _after_changes(_LayerTracer().trace(network), network))
        except Exception as error:  # tracing runs the network's own code, which may fail in any way
            reason = str(error).splitlines()[0] if str(error) else type(error).__name__
            raise BackboneError(
                f"the network cannot be traced as a graph ({reason}), so no model file can hold it; "
                "choose a network without control flow that depends on images"
            ) from error
        return TracedNetwork(module, _Shapes(module).record(size))


@contextmanager
def _evaluating(network: nn.Module) -> Iterator[None]:
    modes = {module: module.training for module in network.modules()}
    try:
        network.eval()
        yield
    finally:
        for module, mode in modes.items():
            module.training = mode


def _after_changes(graph: fx.Graph, network: nn.Module) -> fx.Graph:
    """Let later readers of a tensor that was changed in place read the change's result, which is the same tensor."""
    nodes = list(graph.nodes)
    for index, node in enumerate(nodes):
        if _changes_its_input(node, network):
            source = node.all_input_nodes[0]
            for later in nodes[index + 1 :]:
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
    """Goes into every module that is neither a layer of torch nor a norm."""

    def is_leaf_module(self, m: nn.Module, module_qualified_name: str) -> bool:
        return is_norm(m) or isinstance(m, nn.Conv2d) or super().is_leaf_module(m, module_qualified_name)


class _Shapes(fx.Interpreter):
    """Runs one blank image through a graph and records the shape of every result."""

    @torch.no_grad()
    def record(self, size: int) -> dict[str, tuple[int, ...]]:
        self.shapes: dict[str, tuple[int, ...]] = {}
        self.run(torch.zeros(1, 3, size, size))
        return self.shapes

    def run_node(self, n: fx.Node) -> object:
        result = super().run_node(n)
        if isinstance(result, Tensor):
            self.shapes[n.name] = tuple(result.shape)
        return result
