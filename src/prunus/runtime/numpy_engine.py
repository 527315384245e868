"""The numpy engine: the same results as the native engine, slower, wherever numpy runs."""

from math import prod
from threading import Lock

import numpy as np

from prunus.arrays import Floats, Values
from prunus.bundle.bundle import Bundle
from prunus.errors import DataError
from prunus.graph.compute import compute
from prunus.graph.limits import MAX_CACHED_BYTES
from prunus.graph.operations import Conv, Graph

DomainTensors = list[dict[str, Floats]]  # one dict per operation: role -> tensor


class NumpyEngine:
    """Pure numpy; expands a domain's tensors to dense arrays, and keeps those of the domains used last."""

    name = "numpy"

    def __init__(self, bundle: Bundle) -> None:
        self._bundle = bundle
        self._unused_after = _unused_after(bundle.manifest.graph)
        self._domains: dict[str, DomainTensors] = {}  # the one used last at the end
        self._lock = Lock()

    def logits(self, images: Floats, domain: str) -> Floats:
        """Classify (N, 3, S, S) images of one domain; return (N, classes)."""
        if not np.isfinite(images).all():
            raise DataError("the images contain numbers that are not finite")
        tensors = self._tensors(domain)
        with np.errstate(all="ignore"):  # overflows become infinite, as in the native engine
            features: Floats = self._features(images.astype(np.float32, copy=False), tensors)
            weight, bias = self._bundle.head(domain)
            logits: Floats = features @ weight.T + bias
        return logits

    def _tensors(self, domain: str) -> DomainTensors:
        with self._lock:
            tensors = self._domains.pop(domain, None)
            if tensors is None:
                size = 4 * sum(conv.num_kernels * prod(conv.kernel) for conv in self._bundle.manifest.convs.values())
                while self._domains and (len(self._domains) + 1) * size > MAX_CACHED_BYTES:
                    del self._domains[next(iter(self._domains))]
                tensors = _dense_tensors(self._bundle, domain)
            self._domains[domain] = tensors
        return tensors

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
    manifest = bundle.manifest
    weights = {layer: bundle.weight(layer, bundle.mask(domain, layer)) for layer in manifest.convs}
    tensors: DomainTensors = []
    for number, operation in enumerate(manifest.graph):
        roles = operation.tensors(manifest.shapes[operation.inputs[0]][0])
        stored = {role: bundle.tensor(domain, number, role) for role in roles}
        tensors.append({role: tensor for role, tensor in stored.items() if tensor is not None})
        if isinstance(operation, Conv):
            tensors[-1]["weight"] = weights[operation.layer]
    return tensors


def _unused_after(graph: Graph) -> list[list[int]]:
    """Return, for every operation, the values that no later operation reads."""
    last = {value: max(value - 1, 0) for value in range(len(graph))}  # values that nothing reads are dropped at once
    last |= {value: number for number, operation in enumerate(graph) for value in operation.inputs}
    unused: list[list[int]] = [[] for _ in graph]
    for value, reader in last.items():
        unused[reader].append(value)
    return unused
