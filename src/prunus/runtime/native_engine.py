"""Run a bundle with the native kernels: one program for all domains, which reads the bundle's own arrays."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, get_args

import numpy as np

from prunus.arrays import Floats
from prunus.bundle.bundle import Bundle
from prunus.errors import BundleError, DataError, UnknownNameError
from prunus.graph.operations import (
    ActivationName,
    Add,
    Affine,
    AppendZeros,
    Cat,
    Conv,
    LayerNorm,
    Mean,
    Mul,
    Pool,
)
from prunus.runtime import _native

ACTIVATIONS: dict[str, int] = {name: number for number, name in enumerate(get_args(ActivationName))}


class NativeEngine:
    """Computes logits with C++ kernels of the best instruction set that the processor has.

    Args:
        kernels: an instruction set by name, of `_native.available_kernels()`; "auto" is the best.
    """

    def __init__(self, bundle: Bundle, threads: int = 1, kernels: str = "auto") -> None:
        self._bundle = bundle
        self._program = _native.Program(bundle.manifest.shapes, len(bundle.domains), threads, kernels)
        self._numbers = {domain: number for number, domain in enumerate(bundle.domains)}
        self.layers: list[str] = []  # of the convolutions, in the order of the program
        try:
            self._build()
        except (ValueError, MemoryError) as error:
            raise BundleError(f"the model cannot be loaded here: {error}") from None

    def _build(self) -> None:
        for array in self._bundle.arrays.values():
            array.setflags(write=False)  # the program reads them where they are, and has counted what it will find
        for number, operation in enumerate(self._bundle.manifest.graph):
            STEPS[type(operation)](self, number, operation)
        for domain, place in self._numbers.items():
            weight, bias = (self._bundle.arrays[f"head/{domain}/{key}"] for key in ("weight", "bias"))
            self._program.set_head(place, weight, bias)
        self._program.finish()

    @property
    def name(self) -> str:
        """Name the instruction set."""
        return self._program.kernels

    @property
    def image_bytes(self) -> int:
        """Give the bytes that the activations of one image take."""
        return self._program.image_bytes

    def logits(self, images: Floats, domain: str) -> Floats:
        """Classify (N, 3, S, S) images of one domain: (N, classes)."""
        found = np.empty((len(images), len(self._bundle.manifest.domains[domain].classes)), dtype=np.float32)
        try:
            finite = self._program.run(images, self._numbers[domain], found)
        except MemoryError:
            raise DataError(f"there is not enough memory to classify {len(images)} images at once") from None
        if not finite:
            raise DataError("an image holds numbers that are not finite")
        return found

    def times(self, images: Floats, domain: str) -> list[float]:
        """Measure how many seconds every operation of the graph takes."""
        found = np.empty((len(images), len(self._bundle.manifest.domains[domain].classes)), dtype=np.float32)
        return self._program.times(images, self._numbers[domain], found)

    def paths(self, domain: str) -> list[tuple[str, str]]:
        """Tell which kernel computes each convolution of a domain: (layer, kernel)."""
        place = self._numbers[domain]
        return [(layer, self._program.path(number, place)) for number, layer in enumerate(self.layers)]

    def _convolution(self, number: int, conv: Conv) -> None:
        kept, kernels = self._bundle.stored(conv.layer)
        window = _native.Window(conv.kernel, conv.stride, conv.pads, conv.dilation)
        self._program.add_convolution(
            list(conv.inputs),
            conv.groups,
            window,
            ACTIVATIONS[conv.activation],
            conv.slope,
            kept,
            kernels,
        )
        for domain, place in self._numbers.items():
            used = self._bundle.packed_mask(domain, conv.layer)
            scale, bias, ones = (self._bundle.tensor(domain, number, role) for role in ("scale", "bias", "ones"))
            self._program.set_convolution(len(self.layers), place, used, scale, bias, ones)
        self.layers.append(conv.layer)

    def _affine(self, number: int, operation: Affine) -> None:
        scales, biases = (self._tensors(number, role) for role in ("scale", "bias"))
        activation = ACTIVATIONS[operation.activation]
        self._program.add_affine(operation.inputs[0], activation, operation.slope, scales, biases)

    def _layer_norm(self, number: int, operation: LayerNorm) -> None:
        scales, biases = (self._tensors(number, role) for role in ("scale", "bias"))
        self._program.add_layer_norm(operation.inputs[0], operation.eps, scales, biases)

    def _combine(self, number: int, operation: Add | Mul) -> None:
        activation = ACTIVATIONS[operation.activation]
        self._program.add_combination(operation.op == "add", *operation.inputs, activation, operation.slope)

    def _join(self, number: int, operation: Cat | AppendZeros) -> None:
        self._program.add_join(list(operation.inputs))

    def _pool(self, number: int, operation: Pool) -> None:
        window = _native.Window(operation.kernel, operation.stride, operation.pads, (1, 1))
        self._program.add_pool(operation.inputs[0], window, operation.kind == "max", operation.count_pads)

    def _mean(self, number: int, operation: Mean) -> None:
        self._program.add_mean(operation.inputs[0])

    def _tensors(self, number: int, role: str) -> list[Floats | None]:
        return [self._bundle.tensor(domain, number, role) for domain in self._numbers]


def check_kernels(name: str) -> None:
    """Refuse an instruction set that this processor has not."""
    known = ["auto", *_native.available_kernels()]
    if name not in known:
        raise UnknownNameError("engine", name, [*known, "numpy"])


STEPS: dict[type[Any], Callable[[NativeEngine, int, Any], None]] = {
    Conv: NativeEngine._convolution,
    Affine: NativeEngine._affine,
    LayerNorm: NativeEngine._layer_norm,
    Add: NativeEngine._combine,
    Mul: NativeEngine._combine,
    Cat: NativeEngine._join,
    AppendZeros: NativeEngine._join,
    Pool: NativeEngine._pool,
    Mean: NativeEngine._mean,
}
