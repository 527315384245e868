"""Sums, products, concatenations and reshapes as operations of a graph."""

from collections.abc import Sequence
from math import prod

import numpy as np
from torch import fx

from prunus.arrays import Doubles
from prunus.graph.operations import Add, AppendZeros, Cat, Mul, operation_name
from prunus.lowering.builder import Activation, GraphBuilder

NO_ACTIVATION: Activation = ("none", 0.0)


def _operands(builder: GraphBuilder, node: fx.Node) -> tuple[list[str], Doubles | None] | None:
    """Return the names of the two values that an operator joins, or of one and the constant that it meets: (D, C)."""
    if len(node.args) != 2 or node.kwargs:
        return None
    names = [read.name for read in node.args if isinstance(read, fx.Node) and read.name in builder.values]
    if len(names) == 2:
        return names, None
    other = next(arg for arg in node.args if not (isinstance(arg, fx.Node) and arg.name in names))
    constants = builder.constants[other.name] if isinstance(other, fx.Node) else [other] * len(builder.domains)
    constant_DC = builder.by_channel(constants, builder.shape(node)[1])
    return None if constant_DC is None else (names, constant_DC)


def add(builder: GraphBuilder, node: fx.Node) -> int | None:
    """Add two values, or a constant to one."""
    return _combine(builder, node, Add, "bias")


def multiply(builder: GraphBuilder, node: fx.Node) -> int | None:
    """Multiply two values, or one by a constant."""
    return _combine(builder, node, Mul, "scale")


def _combine(builder: GraphBuilder, node: fx.Node, kind: type[Add | Mul], role: str) -> int | None:
    if (operands := _operands(builder, node)) is None:
        return None
    names, constant = operands
    names.sort(key=lambda name: -prod(builder.traced.shapes[name]))  # a single pixel for all comes second
    values = [builder.values[name] for name in names]
    if constant is not None:
        return builder.activate(values[0], NO_ACTIVATION, {role: constant})
    return builder.add(kind.model_validate({"op": operation_name(kind), "inputs": values}))


def subtract(builder: GraphBuilder, node: fx.Node) -> int | None:
    """Subtract values or constants from each other, as sums."""
    if (operands := _operands(builder, node)) is None:
        return None
    names, constant = operands
    values = [builder.values[name] for name in names]
    minus = {"scale": np.full((len(builder.domains), builder.traced.shapes[names[-1]][1]), -1.0)}
    if constant is None:
        negative = builder.activate(values[1], NO_ACTIVATION, minus)
        return builder.add(Add(op="add", inputs=(values[0], negative)))
    is_minuend = getattr(node.args[0], "name", None) == names[0]
    change = {"bias": -constant} if is_minuend else {"bias": constant, **minus}
    return builder.activate(values[0], NO_ACTIVATION, change)


def concatenate(builder: GraphBuilder, node: fx.Node) -> int | None:
    """Join values along their channels."""
    parts = node.args[0] if node.args else node.kwargs.get("tensors")
    dim = node.kwargs.get("axis", builder.settings(node, ("dim",)).get("dim", 0))
    names = [getattr(part, "name", "") for part in parts] if isinstance(parts, (tuple, list)) else [""]
    if any(name not in builder.values for name in names) or dim not in (1, 1 - len(builder.shape(node))):
        return None
    values = tuple(builder.values[name] for name in names)
    return values[0] if len(values) == 1 else builder.add(Cat(op="cat", inputs=values))


def pad(builder: GraphBuilder, node: fx.Node) -> int | None:
    """Append channels of zeros; padded pixels are not an operation of a graph."""
    settings = builder.settings(node, ("pad", "mode", "value"))
    amounts: Sequence[int] = settings["pad"]
    if settings.get("mode", "constant") != "constant" or settings.get("value") not in (None, 0):
        return None
    if len(amounts) != 6 or any(amounts[:5]) or amounts[5] < 0:
        return None
    source = builder.source(node)
    return builder.add(AppendZeros(op="append_zeros", inputs=(source,), count=amounts[5])) if amounts[5] else source


def reshape(builder: GraphBuilder, node: fx.Node) -> int | None:
    """Pass on a value that is flattened or loses axes of length 1."""
    before, after = builder.shape(node), builder.traced.shapes[node.name]
    is_same = (*after, 1, 1)[: len(before)] == before
    return builder.source(node) if is_same or after == (1, prod(before)) else None


def pass_on(builder: GraphBuilder, node: fx.Node) -> int | None:
    """Pass on a value that does not change."""
    return builder.source(node)
