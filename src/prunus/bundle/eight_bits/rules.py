"""Which operations can compute with 8-bit integers, and which values are then stored as bytes.

A *coded* value holds one byte per number, its code. A coding is a scale and a zero: number = scale * (code - zero).
An operation that computes with integers reads and makes coded values. Every other operation reads and makes floats.
"""

from collections.abc import Callable, Collection, Sequence
from math import prod
from typing import Any

from prunus.graph.operations import Affine, Attention, Conv, Graph, Operation, Pool, Shape

LARGEST_CODE = 255
LARGEST_WEIGHT = 127
MAX_SUM = 2**31  # sums of products must stay below it
EXACT_FLOATS = 2**24  # float32 holds every whole number up to it
HALF_CODES = 128  # subtracted from codes to make them signed
MIN_SCALE, MAX_SCALE = 2.0**-40, 2.0**40
PLAIN = ("none", "relu", "relu6")  # activations that are a limit of the codes; others need a table


def sum_fits(products: int) -> bool:
    """Return whether a sum of so many products of a weight and a code fits into 32 bits."""
    return products * LARGEST_CODE * LARGEST_WEIGHT < MAX_SUM


def can_be_integer(operation: Operation, roles: Collection[str], sources: Sequence[Shape]) -> bool:
    """Return whether an operation can compute with integers.

    Args:
        roles: of the tensors that it has.
        sources: the shapes of its inputs.
    """
    allows = RULES.get(operation.op)
    return allows is not None and allows(operation, roles, sources)


def can_be_split(operation: Operation, roles: Collection[str], sources: Sequence[Shape]) -> bool:
    """Return whether an operation can compute with integers only if its activation becomes an operation of its own."""
    activation = getattr(operation, "activation", "none")
    if activation in PLAIN or (isinstance(operation, Affine) and not roles):
        return False
    return can_be_integer(operation.model_copy(update={"activation": "none"}), roles, sources)


def coded_values(graph: Graph, integers: Collection[int]) -> tuple[int, ...]:
    """Return the values that have a coding: those that some operation in `integers` reads or makes."""
    numbers = set(integers)
    return tuple(sorted({value for number in numbers for value in (*graph[number].inputs, number + 1)}))


def keeps_coding(operation: Operation) -> bool:
    """Return whether the result of an integer operation must have the coding of its input."""
    return operation.op == "append_zeros" or (isinstance(operation, Pool) and operation.kind == "max")


def shared_codings(graph: Graph, integers: Collection[int]) -> list[tuple[int, int]]:
    """Return pairs of values that must have the same coding: the input and the result of an operation."""
    return [(graph[number].inputs[0], number + 1) for number in sorted(integers) if keeps_coding(graph[number])]


def _allows_conv(conv: Conv, roles: Collection[str], sources: Sequence[Shape]) -> bool:
    return "ones" not in roles and conv.activation in PLAIN and sum_fits(prod(conv.kernel) * conv.channels[1])


def _allows_pool(pool: Pool, roles: Collection[str], sources: Sequence[Shape]) -> bool:
    return pool.kind == "max" or prod(pool.kernel) * LARGEST_CODE < MAX_SUM


def _allows_attention(attention: Attention, roles: Collection[str], sources: Sequence[Shape]) -> bool:
    """Scores are whole numbers that floats hold exactly; sums of values fit 32 bits."""
    keys = attention.window_pixels(sources)[1]
    return attention.dims[0] * LARGEST_CODE * HALF_CODES <= EXACT_FLOATS and keys * LARGEST_CODE**2 < MAX_SUM


def _has_plain_activation(operation: Any, roles: Collection[str], sources: Sequence[Shape]) -> bool:  # noqa: ANN401
    return operation.activation in PLAIN


def _always(operation: Operation, roles: Collection[str], sources: Sequence[Shape]) -> bool:
    return True


# operations that are not listed always compute with floats
RULES: dict[str, Callable[[Any, Collection[str], Sequence[Shape]], bool]] = {
    "conv": _allows_conv,
    "affine": lambda affine, roles, sources: affine.activation in PLAIN or not roles,
    "add": _has_plain_activation,
    "mul": _has_plain_activation,
    "cat": _always,
    "append_zeros": _always,
    "pool": _allows_pool,
    "mean": lambda mean, roles, sources: prod(sources[0][1:]) * LARGEST_CODE < MAX_SUM,
    "attention": _allows_attention,
}
