"""The numpy engine: the same results as the native engine, slower, wherever numpy runs."""

from math import prod
from threading import Lock

import numpy as np

from prunus.arrays import Array, Floats, Values
from prunus.bundle.bundle import Bundle
from prunus.errors import DataError
from prunus.graph.limits import MAX_CACHED_BYTES
from prunus.graph.operations import Conv
from prunus.integers.compute import classify, compute, exact_weight
from prunus.integers.lifetimes import unused_after
from prunus.integers.program import lower
from prunus.integers.steps import ConvolutionStep, FloatStep, Step

DomainTensors = list[dict[str, Values]]  # one dict per operation: role -> tensor


class NumpyEngine:
    """Pure numpy; expands a domain's tensors to dense arrays, and keeps those of the domains used last."""

    name = "numpy"

    def __init__(self, bundle: Bundle) -> None:
        self._bundle = bundle
        self._program = lower(bundle)
        self._unused_after = unused_after([step.inputs for step in self._program.steps])
        self._domains: dict[str, DomainTensors] = {}  # the one used last at the end
        self._lock = Lock()

    def logits(self, images: Floats, domain: str) -> Floats:
        """Classify (N, 3, S, S) images of one domain; return (N, classes)."""
        if not np.isfinite(images).all():
            raise DataError("the images contain numbers that are not finite")
        index = self._bundle.domains.index(domain)
        with np.errstate(all="ignore"):  # overflows become infinite, as in the native engine
            features = self._features(images.astype(np.float32, copy=False), index)
            if self._program.heads is not None:
                return classify(self._program.heads[index], features.astype(np.uint8, copy=False))
            weight, bias = self._bundle.head(domain)
            logits: Floats = features.astype(np.float32, copy=False) @ weight.T + bias
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

    def _features(self, images: Floats, index: int) -> Array:
        """Return the last value, flattened: floats, or codes if the classifiers read codes."""
        tensors = self._tensors(self._bundle.domains[index])
        values: dict[int, Array] = {0: images}
        for number, step in enumerate(self._program.steps):
            inputs = [values[value] for value in step.inputs]
            values[number + 1] = compute(step, inputs, _tensors_of(step, tensors), index)
            for value in self._unused_after[number]:
                del values[value]
        return values[len(self._program.steps)].reshape(len(images), self._bundle.manifest.num_features)


def _tensors_of(step: Step, tensors: DomainTensors) -> dict[str, Values]:
    return tensors[step.number] if isinstance(step, (FloatStep, ConvolutionStep)) else {}


def _dense_tensors(bundle: Bundle, domain: str) -> DomainTensors:
    """Return the tensors of one domain; kernels that it does not use are zeros."""
    manifest = bundle.manifest
    integers = set(manifest.integers)
    weights: dict[tuple[str, bool], Values] = {}
    tensors: DomainTensors = []
    for number, operation in enumerate(manifest.graph):
        roles = operation.tensors(manifest.shapes[operation.inputs[0]][0])
        stored = {role: bundle.tensor(domain, number, role) for role in roles}
        tensors.append({role: tensor for role, tensor in stored.items() if tensor is not None})
        if isinstance(operation, Conv):
            key = (operation.layer, number in integers)
            if key not in weights:
                weights[key] = _dense_weight(bundle, domain, *key)
            tensors[-1]["weight"] = weights[key]
    return tensors


def _dense_weight(bundle: Bundle, domain: str, layer: str, is_integer: bool) -> Values:
    mask_OI = bundle.mask(domain, layer)
    return exact_weight(bundle.weight_codes(layer, mask_OI)) if is_integer else bundle.weight(layer, mask_OI)
