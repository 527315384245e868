"""Record what a network computes: every call of a layer, a function or a method, with the shape of its result.

The network runs on one image, so sizes are plain numbers and its own code may decide by them.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, fx, nn
from torch.overrides import TorchFunctionMode
from typing_extensions import override

from prunus.errors import NoFileError
from prunus.masks.layer_copies import is_norm

# what turns the numbers of a tensor into those of Python, which the network's code may decide by
REVEALING = {
    "__bool__",
    "__int__",
    "__float__",
    "__index__",
    "item",
    "tolist",
    "numpy",
    "__array__",
    "equal",
    "allclose",
}
MOST_DIFFERENT = 1e-3  # of the largest feature: the rounding of one image alone and of two together


class _NotAGraphError(Exception):
    """Why a network cannot be traced."""


@dataclass(frozen=True)
class TracedNetwork:
    """The trace of a network for one image.

    Args:
        layers: the modules that nodes call, by name.
        constants: tensors that do not depend on the image, by the names under which nodes read them.
        shapes: of the results that are tensors, by the name of the node.
        types: of the same results.
    """

    graph: fx.Graph
    layers: dict[str, nn.Module]
    constants: dict[str, Tensor]
    shapes: dict[str, tuple[int, ...]]
    types: dict[str, torch.dtype]

    def layer(self, node: fx.Node) -> nn.Module | None:
        """Return the layer that a node calls, if it calls one."""
        return self.layers[str(node.target)] if node.op == "call_module" else None


@torch.no_grad()
def trace(network: nn.Module, size: int) -> TracedNetwork:
    """Trace a network in evaluation mode down to its layers; its modules are used, not copied."""
    images = torch.rand(2, 3, size, size, generator=torch.Generator().manual_seed(0)) - 0.5
    with _evaluating(network):
        try:
            first = _Recorder(network).record(images[:1])
            _check_independent(first.result, network(images))
        except Exception as error:  # tracing runs the network's own code, which may fail in any way
            reason = str(error).splitlines()[0] if str(error) else type(error).__name__
            raise NoFileError(
                f"the network cannot be traced as a graph ({reason})",
                "choose a network without control flow that depends on images",
            ) from error
        return TracedNetwork(first.graph, first.layers, first.constants, first.shapes, first.types)


@contextmanager
def _evaluating(network: nn.Module) -> Iterator[None]:
    modes = {module: module.training for module in network.modules()}
    try:
        network.eval()
        yield
    finally:
        for module, mode in modes.items():
            module.training = mode


def _check_independent(alone: Tensor, together: object) -> None:
    """Refuse a network whose features of an image depend on the images beside it."""
    first = together[:1] if isinstance(together, Tensor) else torch.empty(0)
    if first.shape != alone.shape or float((first - alone).abs().max()) > MOST_DIFFERENT * float(alone.abs().max()):
        raise _NotAGraphError("the features of an image depend on the images beside it")


def _is_leaf(module: nn.Module) -> bool:
    """Return whether a module is recorded as one call: a layer of torch or a norm."""
    of_torch = type(module).__module__.startswith("torch.nn") and not isinstance(module, nn.Sequential)
    return is_norm(module) or isinstance(module, nn.Conv2d) or of_torch


class _Recorder(TorchFunctionMode):
    """Records the calls of one forward pass as nodes of a graph; what is called within a layer is not recorded."""

    def __init__(self, network: nn.Module) -> None:
        super().__init__()
        self.graph = fx.Graph()
        self.layers: dict[str, nn.Module] = {}
        self.constants: dict[str, Tensor] = {}
        self.shapes: dict[str, tuple[int, ...]] = {}
        self.types: dict[str, torch.dtype] = {}
        self.result = torch.empty(0)
        self._network = network
        self._names = {id(tensor): name for name, tensor in network.named_parameters(remove_duplicate=False)}
        self._names |= {id(tensor): name for name, tensor in network.named_buffers(remove_duplicate=False)}
        self._nodes: dict[int, fx.Node] = {}  # of a tensor, by its identity
        self._alive: list[Tensor] = []  # so that no identity is used twice
        self._from_image: set[int] = set()  # tensors that depend on the image
        self._versions: dict[int, int] = {}
        self._stale: set[int] = set()  # tensors that share memory with one that was changed later
        self._within = 0  # layers that are running

    def record(self, image: Tensor) -> _Recorder:
        """Run the network on an image."""
        self._keep(image, self.graph.placeholder("x"), from_image=True)
        layers = {name: module for name, module in self._network.named_modules() if _is_leaf(module)}
        hooks = [hook for name, module in layers.items() for hook in self._watch(name, module)]
        try:
            with self:
                result = self._network(image)
        finally:
            for hook in hooks:
                hook.remove()
        if not isinstance(result, Tensor) or id(result) not in self._from_image:
            raise _NotAGraphError("its result is not a tensor that depends on the image")
        self.graph.output(self._node(result))
        self.result = result
        return self

    def _watch(self, name: str, module: nn.Module) -> list[Any]:
        def enter(*_: object) -> None:
            self._within += 1

        def leave(module: nn.Module, args: Any, kwargs: Any, result: Any) -> None:  # noqa: ANN401
            self._within -= 1
            if not self._within:
                self.layers[name] = module
                self._add(lambda args, kwargs: self.graph.call_module(name, args, kwargs), args, kwargs, result)

        return [
            module.register_forward_pre_hook(enter, with_kwargs=True),
            module.register_forward_hook(leave, with_kwargs=True),
        ]

    @override
    def __torch_function__(
        self, func: Any, types: object, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        kwargs = kwargs or {}
        result = func(*args, **kwargs)
        read = list(_tensors((args, kwargs)))
        if self._within or not any(id(tensor) in self._nodes or id(tensor) in self._names for tensor in read):
            return result  # a constant that does not depend on the network's numbers
        name = str(getattr(func, "__name__", func))
        if name in REVEALING and any(id(tensor) in self._from_image for tensor in read):
            raise _NotAGraphError(f"its code reads the numbers of a result ({name.strip('_')})")
        if name == "__setitem__":
            self._add(lambda args, kwargs: self.graph.call_function(_set_item, args, kwargs), args, kwargs, args[0])
        elif any(True for _ in _tensors(result)):
            self._add(lambda args, kwargs: _call(self.graph, func, name, args, kwargs), args, kwargs, result)
        return result

    def _add(self, call: Callable[[Any, Any], fx.Node], args: Any, kwargs: Any, result: Any) -> None:  # noqa: ANN401
        read = list(_tensors((args, kwargs)))
        node = call(*_mapped((args, kwargs), self._node))
        from_image = any(id(tensor) in self._from_image for tensor in read)
        if isinstance(result, Tensor):
            if self._versions.get(id(result), result._version) != result._version:  # changed in place
                self._forget_views(result)
            self._keep(result, node, from_image)
            return
        for position, part in enumerate(result):
            if isinstance(part, Tensor):
                self._keep(part, self.graph.call_function(operator.getitem, (node, position)), from_image)

    def _keep(self, tensor: Tensor, node: fx.Node, from_image: bool) -> None:
        self._alive.append(tensor)
        self._nodes[id(tensor)] = node
        self._versions[id(tensor)] = tensor._version
        self._stale.discard(id(tensor))
        self.shapes[node.name] = tuple(tensor.shape)
        self.types[node.name] = tensor.dtype
        if from_image:
            self._from_image.add(id(tensor))

    def _forget_views(self, changed: Tensor) -> None:
        """Let no later call read tensors that a change in place has changed too."""
        memory = changed.untyped_storage().data_ptr()
        self._stale |= {
            id(tensor)
            for tensor in self._alive
            if tensor is not changed and tensor.untyped_storage().data_ptr() == memory
        }

    def _node(self, tensor: Tensor) -> fx.Node:
        if id(tensor) in self._stale:
            raise _NotAGraphError("it changes a tensor in place and then reads a view of it")
        if id(tensor) not in self._nodes:
            name = self._names.get(id(tensor))
            if name is None:
                name = f"constant_{len(self.constants)}"
            self.constants[name] = tensor
            self._keep(tensor, self.graph.create_node("get_attr", name), from_image=False)
        return self._nodes[id(tensor)]


def _set_item(*_: object) -> None:
    """Stand for an assignment to a part of a tensor, which no graph knows."""


def _call(graph: fx.Graph, func: Any, name: str, args: Any, kwargs: Any) -> fx.Node:  # noqa: ANN401
    """Add the call of a function or of a tensor's method; an attribute such as `mT` is one too."""
    if name == "__get__":
        return graph.call_function(getattr, (args[0], func.__self__.__name__))
    if getattr(Tensor, name, None) is func:
        return graph.call_method(name, args, kwargs)
    return graph.call_function(getattr(F, name, func) if func.__module__ == F.__name__ else func, args, kwargs)


def _tensors(value: Any) -> Iterator[Tensor]:  # noqa: ANN401
    if isinstance(value, Tensor):
        yield value
    elif isinstance(value, dict):
        yield from _tensors(list(value.values()))
    elif isinstance(value, Sequence) and not isinstance(value, str):
        for part in value:
            yield from _tensors(part)
    elif isinstance(value, slice):
        yield from _tensors((value.start, value.stop, value.step))


def _mapped(value: Any, change: Callable[[Tensor], fx.Node]) -> Any:  # noqa: ANN401
    """Replace all tensors within arguments."""
    if isinstance(value, Tensor):
        return change(value)
    if isinstance(value, dict):
        return {key: _mapped(part, change) for key, part in value.items()}
    if isinstance(value, slice):
        return slice(*(_mapped(part, change) for part in (value.start, value.stop, value.step)))
    if isinstance(value, (tuple, list)):
        return type(value)(_mapped(part, change) for part in value) if type(value) in (tuple, list) else tuple(value)
    return value
