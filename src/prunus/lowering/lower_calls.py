"""Functions and methods as operations of a graph; pools and activations have their own files."""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from math import prod
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import fx

from prunus.arrays import Doubles
from prunus.graph.operations import Add, AppendZeros, Cat, Mul
from prunus.lowering.activations import FUNCTIONS as ACTIVATIONS
from prunus.lowering.lower_pools import POOL_CALLS
from prunus.lowering.lowering import Lowering, Step, arguments


def lower_call(lowering: Lowering, node: fx.Node) -> int | None:
    """Look up how a function or a method is lowered."""
    if node.target in ACTIVATIONS:
        names, choose = ACTIVATIONS[node.target]
        activation = choose(arguments(node, names))
        return None if activation is None else lowering.activate(lowering.source(node), activation)
    step = CALLS.get(node.target)
    return None if step is None else step(lowering, node)


def _operands(lowering: Lowering, node: fx.Node) -> tuple[list[str], Doubles | None] | None:
    """Give the names of the values that an operator joins, or of one and the constant that it meets: (D, C)."""
    if len(node.args) != 2 or node.kwargs:
        return None
    nodes = [each for each in node.args if isinstance(each, fx.Node)]
    names = [each.name for each in nodes if each.name in lowering.values]
    if len(names) == 2:
        return names, None
    other = next(each for each in node.args if not (isinstance(each, fx.Node) and each.name in names))
    given = lowering.constants[other.name] if isinstance(other, fx.Node) else [other] * len(lowering.domains)
    constant = lowering.by_channel(given, lowering.shape(node)[1])
    return None if constant is None else (names, constant)


def _add(lowering: Lowering, node: fx.Node) -> int | None:
    if (found := _operands(lowering, node)) is None:
        return None
    names, constant = found
    values = [lowering.values[name] for name in names]
    if constant is not None:
        return lowering.activate(values[0], ("none", 0.0), {"bias": constant})
    return lowering.add(Add(op="add", inputs=(values[0], values[1])))


def _subtract(lowering: Lowering, node: fx.Node) -> int | None:
    if (found := _operands(lowering, node)) is None:
        return None
    names, constant = found
    values = [lowering.values[name] for name in names]
    width = lowering.traced.shapes[names[-1]][1]
    minus = {"scale": np.full((len(lowering.domains), width), -1.0)}
    if constant is None:
        negative = lowering.activate(values[1], ("none", 0.0), minus)
        return lowering.add(Add(op="add", inputs=(values[0], negative)))
    is_first = getattr(node.args[0], "name", None) == names[0]
    change = {"bias": -constant} if is_first else {"bias": constant, **minus}
    return lowering.activate(values[0], ("none", 0.0), change)


def _multiply(lowering: Lowering, node: fx.Node) -> int | None:
    if (found := _operands(lowering, node)) is None:
        return None
    names, constant = found
    names.sort(key=lambda name: -prod(lowering.traced.shapes[name]))  # one pixel for all stands second
    values = [lowering.values[name] for name in names]
    if constant is not None:
        return lowering.activate(values[0], ("none", 0.0), {"scale": constant})
    return lowering.add(Mul(op="mul", inputs=(values[0], values[1])))


def _concatenate(lowering: Lowering, node: fx.Node) -> int | None:
    parts: Any = node.args[0] if node.args else node.kwargs.get("tensors")
    given = arguments(node, ("dim",)) | ({"dim": node.kwargs["axis"]} if "axis" in node.kwargs else {})
    known = isinstance(parts, (tuple, list)) and all(getattr(each, "name", None) in lowering.values for each in parts)
    if not known or given.get("dim", 0) not in (1, 1 - len(lowering.shape(node))):
        return None
    values = tuple(lowering.values[each.name] for each in parts)
    return values[0] if len(values) == 1 else lowering.add(Cat(op="cat", inputs=values))


def _pad(lowering: Lowering, node: fx.Node) -> int | None:
    given = arguments(node, ("pad", "mode", "value"))
    amounts: Sequence[int] = given["pad"]
    if given.get("mode", "constant") != "constant" or given.get("value") not in (None, 0):
        return None
    if len(amounts) != 6 or any(amounts[:5]) or amounts[5] < 0:
        return None
    source = lowering.source(node)
    return lowering.add(AppendZeros(op="append_zeros", inputs=(source,), count=amounts[5])) if amounts[5] else source


def _reshape(lowering: Lowering, node: fx.Node) -> int | None:
    """Pass on what is flattened, or loses axes of length 1."""
    before, after = lowering.shape(node), lowering.traced.shapes[node.name]
    same = (*after, 1, 1)[: len(before)] == before
    return lowering.source(node) if same or after == (1, prod(before)) else None


def _vanish(lowering: Lowering, node: fx.Node) -> int | None:
    return lowering.source(node)


CALLS: dict[Callable[..., Any] | str, Step] = {
    **dict.fromkeys((operator.add, operator.iadd, torch.add, "add", "add_"), _add),
    **dict.fromkeys((operator.sub, operator.isub, torch.sub, "sub", "sub_"), _subtract),
    **dict.fromkeys((operator.mul, operator.imul, torch.mul, "mul", "mul_"), _multiply),
    **dict.fromkeys((torch.cat, torch.concat), _concatenate),
    **dict.fromkeys((torch.flatten, torch.squeeze, "flatten", "view", "reshape", "squeeze"), _reshape),
    **dict.fromkeys((F.dropout, "contiguous", "clone", "float"), _vanish),
    F.pad: _pad,
    **POOL_CALLS,
}
