"""Run a bundle with numpy alone: slower than the native engine, the same answers wherever numpy runs."""

from __future__ import annotations

import numpy as np

from prunus.arrays import Floats, Values
from prunus.bundle.bundle import Bundle
from prunus.errors import DataError
from prunus.graph.compute import compute
from prunus.graph.operations import Graph
from prunus.runtime.tensors import DomainTensors, domain_tensors


class NumpyEngine:
    """Holds every domain's tensors, dense, made when first asked for."""

    name = "numpy"

    def __init__(self, bundle: Bundle) -> None:
        self._bundle = bundle
        self._spent = _spent_values(bundle.manifest.graph)
        self._domains: dict[str, DomainTensors] = {}

    def logits(self, images: Floats, domain: str) -> Floats:
        """Classify (N, 3, S, S) images of one domain: (N, classes)."""
        if not np.isfinite(images).all():
            raise DataError("an image holds numbers that are not finite")
        if domain not in self._domains:  # two threads may both make them: either's are right
            self._domains[domain] = domain_tensors(self._bundle, domain)
        with np.errstate(all="ignore"):  # a number too large becomes infinite, as elsewhere
            features: Floats = self._features(images.astype(np.float32, copy=False), self._domains[domain])
            weight, bias = self._bundle.head(domain)
            logits: Floats = features @ weight.T + bias
        return logits

    def _features(self, images: Floats, tensors: DomainTensors) -> Floats:
        manifest = self._bundle.manifest
        values: dict[int, Values] = {0: images}
        for number, operation in enumerate(manifest.graph):
            inputs, own = [values[each] for each in operation.inputs], tensors[number]
            values[number + 1] = compute(operation, inputs, own, manifest.shapes[number + 1][1:])
            for each in self._spent[number]:
                del values[each]
        return values[len(manifest.graph)].reshape(len(images), manifest.num_features).astype(np.float32, copy=False)


def _spent_values(graph: Graph) -> list[list[int]]:
    """List, for every operation, the values that nothing reads after it."""
    last = {value: max(value - 1, 0) for value in range(len(graph))}  # one that nothing reads goes at once
    last |= {value: number for number, operation in enumerate(graph) for value in operation.inputs}
    return [[value for value, place in last.items() if place == number] for number in range(len(graph))]
