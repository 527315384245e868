"""Hand the operations on tokens to the native engine, with the numbers of every domain."""

from collections.abc import Callable, Sequence
from typing import Any

from prunus.arrays import Floats
from prunus.bundle.bundle import Bundle
from prunus.graph.operations import AffineMap, Attention, JoinPixels, Rearrange
from prunus.runtime import _native


def tensors_of(bundle: Bundle, number: int, role: str) -> list[Floats | None]:
    """Return a tensor of an operation as every domain has it."""
    return [bundle.tensor(domain, number, role) for domain in bundle.domains]


def _add_affine_map(program: _native.Program, bundle: Bundle, number: int, operation: AffineMap) -> None:
    scales, biases = (tensors_of(bundle, number, role) for role in ("scale", "bias"))
    program.add_affine_map(operation.inputs[0], scales, biases)


def _add_join_pixels(program: _native.Program, bundle: Bundle, number: int, operation: JoinPixels) -> None:
    program.add_join_pixels(operation.inputs, operation.count, tensors_of(bundle, number, "tokens"))


def _add_rearrange(program: _native.Program, bundle: Bundle, number: int, operation: Rearrange) -> None:
    program.add_rearrange(operation.inputs[0], operation.sizes, operation.strides, operation.offset)


def windows_and_regions(attention: Attention, sides: Sequence[int]) -> tuple[list[list[int]], list[list[int]]]:
    """Return the pixels of every window and, if borders matter, which of them lie between; both may be empty."""
    windows = [] if attention.window is None else attention.windows(sides).tolist()
    return windows, attention.regions(sides).tolist() if windows and attention.apart else []


def _add_attention(program: _native.Program, bundle: Bundle, number: int, attention: Attention) -> None:
    program.add_attention(
        attention.inputs,
        attention.heads,
        attention.dims,
        attention.first,
        attention.step,
        attention.scale,
        attention.apart,
        *windows_and_regions(attention, bundle.manifest.shapes[number + 1][1:]),
        tensors_of(bundle, number, "bias"),
    )


TOKEN_STEPS: dict[str, Callable[[_native.Program, Bundle, int, Any], None]] = {
    "affine_map": _add_affine_map,
    "join_pixels": _add_join_pixels,
    "rearrange": _add_rearrange,
    "attention": _add_attention,
}
