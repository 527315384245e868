"""Which operations can compute with 8-bit integers, and which values are then stored as bytes.

A *coded* value holds one byte per number, its code. A coding is a scale and a zero: number = scale * (code - zero).
An operation that computes with integers reads and makes coded values. Every other operation reads and makes floats.
"""

from collections.abc import Callable, Collection
from math import prod
from typing import Any

from prunus.graph.operations import Affine, Conv, Graph, Operation, Pool, Shape

LARGEST_CODE = 255
LARGEST_WEIGHT = 127
MAX_SUM = 2**31  # sums of products must stay below it
MIN_SCALE, MAX_SCALE = 2.0**-40, 2.0**40
PLAIN = ("none", "relu", "relu6")  # activations that are a limit of the codes; others need a table


def sum_fits(products: int) -> bool:
    """Return whether a sum of so many products of a weight and a code fits into 32 bits."""
    return products * LARGEST_CODE * LARGEST_WEIGHT < MAX_SUM


def can_be_integer(operation: Operation, roles: Collection[str], source: Shape) -> bool:
    """Return whether an operation can compute with integers.

    Args:
        roles: of the tensors that it has.
        source: the shape of its first input.
    """
    allows = RULES.get(operation.op)
    return allows is not None and allows(operation, roles, source)


def can_be_split(operation: Operation, roles: Collection[str], source: Shape) -> bool:
    """Return whether an operation can compute with integers only if its activation becomes an operation of its own."""
    activation = getattr(operation, "activation", "none")
    if activation in PLAIN or (isinstance(operation, Affine) and not roles):
        return False
    return can_be_integer(operation.model_copy(update={"activation": "none"}), roles, source)


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


def _allows_conv(conv: Conv, roles: Collection[str], source: Shape) -> bool:
    return "ones" not in roles and conv.activation in PLAIN and sum_fits(prod(conv.kernel) * conv.channels[1])


def _allows_pool(pool: Pool, roles: Collection[str], source: Shape) -> bool:
    return pool.kind == "max" or prod(pool.kernel) * LARGEST_CODE < MAX_SUM


def _has_plain_activation(operation: Any, roles: Collection[str], source: Shape) -> bool:  # noqa: ANN401
    return operation.activation in PLAIN


def _always(operation: Operation, roles: Collection[str], source: Shape) -> bool:
    return True


# operations that are not listed always compute with floats
RULES: dict[str, Callable[[Any, Collection[str], Shape], bool]] = {
    "conv": _allows_conv,
    "affine": lambda affine, roles, source: affine.activation in PLAIN or not roles,
    "add": _has_plain_activation,
    "mul": _has_plain_activation,
    "cat": _always,
    "append_zeros": _always,
    "pool": _allows_pool,
    "mean": lambda mean, roles, source: prod(source[1:]) * LARGEST_CODE < MAX_SUM,
}
