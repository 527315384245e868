"""The numpy engine: the same results as the native engine, slower, wherever numpy runs."""

import numpy as np

from prunus.arrays import Floats, Values
from prunus.bundle.bundle import Bundle
from prunus.bundle.packing import from_bundle
from prunus.errors import DataError
from prunus.graph.compute import compute
from prunus.graph.operations import Graph

DomainTensors = list[dict[str, Floats]]  # one dict per operation: role -> tensor


class NumpyEngine:
    """Pure numpy; expands a domain's tensors to dense arrays on its first call."""

    name = "numpy"

    def __init__(self, bundle: Bundle) -> None:
        self._bundle = bundle
        self._unused_after = _unused_after(bundle.manifest.graph)
        self._domains: dict[str, DomainTensors] = {}

    def logits(self, images: Floats, domain: str) -> Floats:
        """Classify (N, 3, S, S) images of one domain; return (N, classes)."""
        if not np.isfinite(images).all():
            raise DataError("the images contain numbers that are not finite")
        if domain not in self._domains:  # two threads may both do this; the results are equal
            self._domains[domain] = _dense_tensors(self._bundle, domain)
        with np.errstate(all="ignore"):  # overflows become infinite, as in the native engine
            features: Floats = self._features(images.astype(np.float32, copy=False), self._domains[domain])
            weight, bias = self._bundle.head(domain)
            logits: Floats = features @ weight.T + bias
        return logits

    def _features(self, images: Floats, tensors: DomainTensors) -> Floats:
        manifest = self._bundle.manifest
        values: dict[int, Values] = {0: images}
        for number, operation in enumerate(manifest.graph):
            inputs = [values[value] for value in operation.inputs]
            values[number + 1] = compute(operation, inputs, tensors[number], manifest.shapes[number + 1][1:])
            for value in self._unused_after[number]:
                del values[value]
        return values[len(manifest.graph)].reshape(len(images), manifest.num_features).astype(np.float32, copy=False)


def _dense_tensors(bundle: Bundle, domain: str) -> DomainTensors:
    """Return the tensors of one domain; kernels that it does not use are zeros."""
    network = from_bundle(bundle, [domain])
    tensors = (network.domain_tensors(0, number) for number in range(len(network.nodes)))
    return [{role: tensor.astype(np.float32, copy=False) for role, tensor in by_role.items()} for by_role in tensors]


def _unused_after(graph: Graph) -> list[list[int]]:
    """Return, for every operation, the values that no later operation reads."""
    last = {value: max(value - 1, 0) for value in range(len(graph))}  # values that nothing reads are dropped at once
    last |= {value: number for number, operation in enumerate(graph) for value in operation.inputs}
    return [[value for value, reader in last.items() if reader == number] for number in range(len(graph))]
