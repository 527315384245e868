"""The tensors of an ONNX model: those of one domain, or of all domains with nodes that select one domain.

Legend: O = output channels, I = input channels of one group.
"""

from collections.abc import Callable, Mapping, Sequence

import numpy as np
import numpy.typing as npt

from prunus.arrays import Array, Floats
from prunus.bundle.bundle import Bundle
from prunus.graph.network import GraphNetwork
from prunus.graph.operations import Conv, Operation
from prunus.onnx.graph import OnnxGraph

IMPOSSIBLE = -1e9  # the logit of a class that a domain does not have


class DomainTensors:
    """The tensors of a network of one domain.

    Args:
        kernels: layer -> the name of its weight.
    """

    def __init__(self, onnx: OnnxGraph, network: GraphNetwork, kernels: Mapping[str, str]) -> None:
        self._onnx = onnx
        self._network = network
        self._kernels = kernels

    def get(self, number: int, role: str, shape: tuple[int, ...] | None = None) -> str | None:
        """Add a tensor, if the operation has one of that role, and return its name."""
        operation = self._network.graph[number]
        if isinstance(operation, Conv) and role == "weight":
            return self._kernels[operation.layer]
        tensor_D = self._network.nodes[number].tensors.get(role)
        if tensor_D is None:
            return None
        array = tensor_D[0].astype(_type(self._onnx, operation, role))
        return self._onnx.tensor(_title(number, operation, role), array if shape is None else array.reshape(shape))

    def head(self, role: str) -> str:
        """Add the classifier's weight or bias and return its name."""
        weight, bias = self._network.heads[0]
        if role == "bias":
            return self._onnx.tensor("head.bias", bias)
        return _as_float32(self._onnx, "head.weight", weight.astype(self._onnx.real))

    def select(self, title: str, arrays: Sequence[Array]) -> str:
        """Add the only domain's array and return its name."""
        (array,) = arrays
        return self._onnx.tensor(title, array)

    def mask(self, layer: str, weight: str, zero: Array) -> str:
        """Return the weight: its kernels are the domain's."""
        return weight


class SelectedTensors:
    """The tensors of all domains, with nodes that select by the input `domain`.

    Args:
        kernels: layer -> the name of the union's weight.
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
            return self._once(f"weight.{operation.layer}", lambda _: self._weight(operation.layer))
        tensors = [self._bundle.tensor(domain, number, role) for domain in self._bundle.domains]
        arrays = [tensor if shape is None else tensor.reshape(shape) for tensor in tensors if tensor is not None]
        if not arrays:
            return None
        arrays = [array.astype(_type(self._onnx, operation, role)) for array in arrays]
        return self.select(_title(number, operation, role), arrays)

    def head(self, role: str) -> str:
        """Add all classifiers, padded to the largest number of classes, and select one."""
        heads = [self._bundle.head(domain)[("weight", "bias").index(role)] for domain in self._bundle.domains]
        if role == "bias":
            return self.select("head.bias", pad_classes(heads, IMPOSSIBLE))
        weights = [weight.astype(self._onnx.real) for weight in pad_classes(heads, 0.0)]
        selected = self.select("head.weight", weights)
        return selected if self._onnx.real == np.float32 else self._onnx.cast(selected, np.float32)

    def select(self, title: str, arrays: Sequence[Array]) -> str:
        """Add the arrays of all domains once, and a node that selects one unless they are equal."""
        return self._once(title, lambda title: self._select(title, arrays))

    def mask(self, layer: str, weight: str, zero: Array) -> str:
        """Set the kernels that the domain does not use to zero."""
        if layer not in self._masks:
            return weight
        mask = self._once(f"mask.{layer}", lambda _: self._onnx.node("Gather", self._masks[layer], "domain", axis=0))
        return self._onnx.node("Where", mask, weight, self._onnx.tensor(f"zero.{zero.dtype.name}", zero))

    def _once(self, title: str, add: Callable[[str], str]) -> str:
        """Add a tensor once: a layer may run twice, and a scale may have two uses."""
        if title not in self._results:
            self._results[title] = add(title)
        return self._results[title]

    def _weight(self, layer: str) -> str:
        return self.mask(layer, self._kernels[layer], np.array(0, np.float32))

    def _select(self, title: str, arrays: Sequence[Array]) -> str:
        if all(np.array_equal(array, arrays[0]) for array in arrays):
            return self._onnx.tensor(title, arrays[0])
        return self._onnx.node("Gather", self._onnx.tensor(title, np.stack(arrays)), "domain", axis=0)


def pad_classes(heads: Sequence[Floats], value: float) -> list[Floats]:
    """Pad the weights or biases of all classifiers to the same number of classes."""
    most = max(map(len, heads))
    padded = []
    for head in heads:
        rows = np.full((most, *head.shape[1:]), value, dtype=np.float32)
        rows[: len(head)] = head
        padded.append(rows)
    return padded


def _as_float32(onnx: OnnxGraph, title: str, array: Array) -> str:
    name = onnx.tensor(title, array)
    return name if array.dtype == np.float32 else onnx.cast(name, np.float32)


def _type(onnx: OnnxGraph, operation: Operation, role: str) -> npt.DTypeLike:
    """Return the type of a tensor: kernels, and what they are multiplied by, are prepared in float32."""
    return np.float32 if isinstance(operation, Conv) and role != "bias" else onnx.real


def _title(number: int, operation: Operation, role: str) -> str:
    return f"{number}.{operation.layer if isinstance(operation, Conv) else operation.op}.{role}"
