"""Where the numbers of an ONNX model come from: one domain's own, or all domains', chosen when the model runs.

Legend: D = domains, O = output channels, I = input channels of one group.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from prunus.arrays import Array
from prunus.bundle.bundle import Bundle
from prunus.graph.operations import Conv, Operation
from prunus.onnx.network import DomainNetwork
from prunus.onnx.nodes import OnnxGraph

IMPOSSIBLE = -1e9  # the logit of a class that a domain has not


class OwnNumbers:
    """Lays one domain's numbers into a model."""

    def __init__(self, onnx: OnnxGraph, network: DomainNetwork) -> None:
        self._onnx, self._network = onnx, network

    def get(self, number: int, role: str, shape: tuple[int, ...] | None = None) -> str | None:
        """Add a tensor, if there is one of that role."""
        array = self._network.tensors[number].get(role)
        if array is None:
            return None
        name = _title(number, self._network.graph[number], role)
        return self._onnx.tensor(name, array if shape is None else array.reshape(shape))

    def head(self, role: str) -> str:
        """Add the classifier's weight or bias."""
        arrays = {"weight": self._network.head_weight, "bias": self._network.head_bias}
        return self._onnx.tensor(f"head.{role}", arrays[role])


class ChosenNumbers:
    """Lays all domains' numbers into a model, with nodes that choose by the input `domain`."""

    def __init__(self, onnx: OnnxGraph, bundle: Bundle) -> None:
        self._onnx, self._bundle = onnx, bundle
        self._made: dict[str, str] = {}  # by name: the result that holds it

    def get(self, number: int, role: str, shape: tuple[int, ...] | None = None) -> str | None:
        """Add a tensor, if there is one of that role."""
        operation = self._bundle.manifest.graph[number]
        if isinstance(operation, Conv) and role == "weight":
            return self._once(f"{operation.layer}.weight", lambda name: self._weight(operation.layer, name))
        found = [self._bundle.tensor(domain, number, role) for domain in self._bundle.domains]
        arrays = [each if shape is None else each.reshape(shape) for each in found if each is not None]
        if not arrays:
            return None
        return self._once(_title(number, operation, role), lambda name: self._choose(name, arrays))

    def head(self, role: str) -> str:
        """Add all classifiers, padded to the largest number of classes, and choose one."""
        most = max(len(entry.classes) for entry in self._bundle.manifest.domains.values())
        heads = []
        for domain in self._bundle.domains:
            array = self._bundle.head(domain)[("weight", "bias").index(role)]
            padded = np.full((most, *array.shape[1:]), 0.0 if role == "weight" else IMPOSSIBLE, dtype=np.float32)
            padded[: len(array)] = array
            heads.append(padded)
        return self._choose(f"head.{role}", heads)

    def _once(self, name: str, make: Callable[[str], str]) -> str:
        """Make what has this name, unless it was made before: a layer may run twice, a scale may have two uses."""
        if name not in self._made:
            self._made[name] = make(name)
        return self._made[name]

    def _weight(self, layer: str, name: str) -> str:
        """Add the union's kernels; a domain's mask leaves zeros where it uses none."""
        union_OI = self._bundle.union(layer)
        weight = self._onnx.tensor(name, self._bundle.weight(layer, union_OI))
        masks = [self._bundle.mask(domain, layer) for domain in self._bundle.domains]
        if all(mask[union_OI].all() for mask in masks):
            return weight
        mask = self._choose(f"{layer}.mask", [each[:, :, None, None] for each in masks])
        return self._onnx.node("Where", mask, weight, self._onnx.number(0.0))

    def _choose(self, name: str, arrays: Sequence[Array]) -> str:
        if all(np.array_equal(array, arrays[0]) for array in arrays):
            return self._onnx.tensor(name, arrays[0])
        return self._onnx.node("Gather", self._onnx.tensor(name, np.stack(arrays)), "domain", axis=0)


def _title(number: int, operation: Operation, role: str) -> str:
    return f"{number}.{operation.layer if isinstance(operation, Conv) else operation.op}.{role}"
