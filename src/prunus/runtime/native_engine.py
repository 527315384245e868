"""The native engine: one program for all domains of a bundle, which reads the bundle's arrays in place."""

from collections.abc import Callable
from typing import Any

import numpy as np

from prunus.arrays import Floats
from prunus.bundle.bundle import Bundle
from prunus.errors import BundleError, DataError, PrunusError, UnknownNameError
from prunus.graph.operations import Affine, Conv, LayerNorm, Pool
from prunus.integers.program import Program, lower
from prunus.integers.steps import FloatStep
from prunus.runtime import _native
from prunus.runtime.native_steps import INTEGER_STEPS, set_heads
from prunus.runtime.native_tokens import TOKEN_STEPS, tensors_of

# of every build; each has those of one kind of processor
INSTRUCTION_SETS = ("avx512vnni", "avx512", "avxvnni", "avx2", "neondot", "neon", "portable")


class NativeEngine:
    """C++ kernels for the processor's best instruction set.

    Args:
        kernels: the name of an instruction set from `_native.available_kernels()`; "auto" selects the best.
    """

    def __init__(self, bundle: Bundle, threads: int = 1, kernels: str = "auto") -> None:
        self._bundle = bundle
        lowered = lower(bundle)
        self._program = _native.Program(lowered.shapes, len(bundle.domains), threads, kernels)
        self.layers = [operation.layer for operation in bundle.manifest.graph if isinstance(operation, Conv)]
        try:
            self._build(lowered)
        except (ValueError, MemoryError) as error:
            raise BundleError(f"the native engine cannot load this model: {error}") from None

    def _build(self, lowered: Program) -> None:
        for array in self._bundle.arrays.values():
            array.setflags(write=False)  # the program reads the arrays in place and relies on their content
        for step in lowered.steps:
            if isinstance(step, FloatStep):
                STEPS[step.operation.op](self._program, self._bundle, step.number, step.operation)
            else:
                INTEGER_STEPS[type(step)](self._program, self._bundle, step)
        for value, codings in lowered.codings.items():
            self._program.set_value_zeros(value, codings.zeros.tolist())
        if lowered.heads is not None:
            set_heads(self._program, lowered.heads)
        else:
            self._set_float_heads()
        self._program.finish()

    def _set_float_heads(self) -> None:
        is_coded = self._bundle.dtype == "int8"
        for index, domain in enumerate(self._bundle.domains):
            stored = [self._bundle.arrays[f"head/{domain}/{key}"] for key in ("weight", "bias")]
            weight, bias = self._bundle.head(domain) if is_coded else stored
            self._program.set_head(index, weight, bias)

    @property
    def name(self) -> str:
        """Return the name of the instruction set."""
        return self._program.kernels

    @property
    def image_bytes(self) -> int:
        """Return the number of bytes that the activations of one image take."""
        return self._program.image_bytes

    def logits(self, images: Floats, domain: str) -> Floats:
        """Classify (N, 3, S, S) images of one domain; return (N, classes)."""
        logits = np.empty((len(images), len(self._bundle.manifest.domains[domain].classes)), dtype=np.float32)
        try:
            is_finite = self._program.run(images, self._bundle.domains.index(domain), logits)
        except MemoryError:
            raise DataError(f"not enough memory to classify {len(images)} images at once; pass fewer") from None
        if not is_finite:
            raise DataError("the images contain numbers that are not finite")
        return logits

    def paths(self, domain: str) -> list[tuple[str, str]]:
        """Return which kernel computes each convolution of a domain, as (layer, kernel)."""
        index = self._bundle.domains.index(domain)
        return [(layer, self._program.path(number, index)) for number, layer in enumerate(self.layers)]


def check_kernels(name: str) -> None:
    """Raise an error if this processor does not support an instruction set."""
    known = ["auto", *_native.available_kernels()]
    if name in known:
        return
    known.append("numpy")
    if name in _native.lacking_kernels():
        raise PrunusError(f"this processor lacks the instructions of engine {name!r}; it has: {', '.join(known)}")
    if name in INSTRUCTION_SETS:
        raise PrunusError(
            f"this build lacks engine {name!r}, which is for other processors; it has: {', '.join(known)}"
        )
    raise UnknownNameError("engine", name, known)


def _add_convolution(program: _native.Program, bundle: Bundle, number: int, conv: Conv) -> None:
    kept, kernels = bundle.stored(conv.layer)
    if kernels.dtype == np.int8:
        kernels = bundle.kernels(conv.layer)
    window = _native.Window(conv.kernel, conv.stride, conv.pads, conv.dilation)
    step = program.add_convolution(conv.inputs, conv.groups, window, conv.activation, conv.slope, kept, kernels)
    for index, domain in enumerate(bundle.domains):
        used = bundle.packed_mask(domain, conv.layer)
        scale, bias, ones = (bundle.tensor(domain, number, role) for role in ("scale", "bias", "ones"))
        program.set_convolution(step, index, used, scale, bias, ones)


def _add_affine(program: _native.Program, bundle: Bundle, number: int, affine: Affine) -> None:
    scales, biases = (tensors_of(bundle, number, role) for role in ("scale", "bias"))
    program.add_affine(affine.inputs[0], affine.activation, affine.slope, scales, biases)


def _add_layer_norm(program: _native.Program, bundle: Bundle, number: int, norm: LayerNorm) -> None:
    scales, biases = (tensors_of(bundle, number, role) for role in ("scale", "bias"))
    program.add_layer_norm(norm.inputs[0], norm.eps, scales, biases)


def _add_pool(program: _native.Program, bundle: Bundle, number: int, pool: Pool) -> None:
    window = _native.Window(pool.kernel, pool.stride, pool.pads, (1, 1))
    program.add_pool(pool.inputs[0], window, pool.kind == "max", pool.count_pads)


STEPS: dict[str, Callable[[_native.Program, Bundle, int, Any], None]] = {
    "conv": _add_convolution,
    "affine": _add_affine,
    "layer_norm": _add_layer_norm,
    "add": lambda program, bundle, number, add: program.add_sum(add.inputs, add.activation, add.slope),
    "mul": lambda program, bundle, number, mul: program.add_product(mul.inputs, mul.activation, mul.slope),
    "cat": lambda program, bundle, number, cat: program.add_join(cat.inputs),
    "append_zeros": lambda program, bundle, number, append: program.add_join(append.inputs),
    "pool": _add_pool,
    "mean": lambda program, bundle, number, mean: program.add_mean(mean.inputs[0]),
    **TOKEN_STEPS,
}
