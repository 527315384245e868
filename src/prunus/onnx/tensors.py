"""The tensors of an ONNX model: those of one domain, or of all domains with nodes that select one domain.

Legend: O = output channels, I = input channels of one group.
"""

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from prunus.arrays import Array
from prunus.bundle.bundle import Bundle
from prunus.graph.network import GraphNetwork
from prunus.graph.operations import Conv, Operation
from prunus.onnx.nodes import OnnxGraph

IMPOSSIBLE = -1e9  # the logit of a class that a domain does not have


class DomainTensors:
    """The tensors of a network of one domain.

    Args:
        kernels: layer -> the name of its weight, if it is already there.
    """

    def __init__(self, onnx: OnnxGraph, network: GraphNetwork, kernels: Mapping[str, str]) -> None:
        self._onnx = onnx
        self._network = network
        self._kernels = kernels

    def get(self, number: int, role: str, shape: tuple[int, ...] | None = None) -> str | None:
        """Add a tensor, if the operation has one of that role, and return its name."""
        operation = self._network.graph[number]
        if isinstance(operation, Conv) and role == "weight" and operation.layer in self._kernels:
            return self._kernels[operation.layer]
        tensor = self._network.domain_tensors(0, number).get(role)
        if tensor is None:
            return None
        array = tensor.astype(np.float32)
        title = _title(number, operation, role)
        return self._onnx.tensor(title, array if shape is None else array.reshape(shape))

    def head(self, role: str) -> str:
        """Add the classifier's weight or bias and return its name."""
        weight, bias = self._network.heads[0]
        return self._onnx.tensor(f"head.{role}", {"weight": weight, "bias": bias}[role])


class SelectedTensors:
    """The tensors of all domains, with nodes that select by the input `domain`.

    Args:
        kernels: layer -> the name of the union's weight, if it is already there.
        masks: layer -> the name of all domains' masks, if not every domain uses the union.
    """

    def __init__(self, onnx: OnnxGraph, bundle: Bundle, kernels: Mapping[str, str], masks: Mapping[str, str]) -> None:
        self._onnx = onnx
        self._bundle = bundle
        self._kernels = kernels
        self._masks = masks
        self._results: dict[str, str] = {}  # title -> the node or tensor that holds it

    def get(self, number: int, role: str, shape: tuple[int, ...] | None = None) -> str | None:
        """Add a tensor, if the operation has one of that role, and return its name."""
        operation = self._bundle.manifest.graph[number]
        if isinstance(operation, Conv) and role == "weight":
            return self._once(f"{operation.layer}.weight", lambda title: self._weight(operation.layer, title))
        tensors = [self._bundle.tensor(domain, number, role) for domain in self._bundle.domains]
        arrays = [tensor if shape is None else tensor.reshape(shape) for tensor in tensors if tensor is not None]
        if not arrays:
            return None
        return self._once(_title(number, operation, role), lambda title: self._select(title, arrays))

    def head(self, role: str) -> str:
        """Add all classifiers, padded to the largest number of classes, and select one."""
        most = max(len(entry.classes) for entry in self._bundle.manifest.domains.values())
        heads = []
        for domain in self._bundle.domains:
            array = self._bundle.head(domain)[("weight", "bias").index(role)]
            padded = np.full((most, *array.shape[1:]), 0.0 if role == "weight" else IMPOSSIBLE, dtype=np.float32)
            padded[: len(array)] = array
            heads.append(padded)
        return self._select(f"head.{role}", heads)

    def _once(self, title: str, add: Callable[[str], str]) -> str:
        """Add a tensor once: a layer may run twice, and a scale may have two uses."""
        if title not in self._results:
            self._results[title] = add(title)
        return self._results[title]

    def _weight(self, layer: str, title: str) -> str:
        """Add the union's kernels; a domain's mask sets those that it does not use to zero."""
        union_OI = self._bundle.union(layer)
        weight = self._kernels.get(layer) or self._onnx.tensor(title, self._bundle.weight(layer, union_OI))
        if layer not in self._masks:
            return weight
        selected = self._onnx.node("Gather", self._masks[layer], "domain", axis=0)
        return self._onnx.node("Where", selected, weight, self._onnx.number(0.0))

    def _select(self, title: str, arrays: Sequence[Array]) -> str:
        if all(np.array_equal(array, arrays[0]) for array in arrays):
            return self._onnx.tensor(title, arrays[0])
        return self._onnx.node("Gather", self._onnx.tensor(title, np.stack(arrays)), "domain", axis=0)


def _title(number: int, operation: Operation, role: str) -> str:
    return f"{number}.{operation.layer if isinstance(operation, Conv) else operation.op}.{role}"
