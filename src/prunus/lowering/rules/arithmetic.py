"""Sums, products and concatenations as operations of a graph.

Legend: D = domains, C = channels.
"""

from collections.abc import Sequence
from math import prod
from typing import Any

import torch
from torch import Tensor, fx

from prunus.arrays import Doubles
from prunus.graph.operations import Add, AffineMap, Cat, JoinPixels, Mul, operation_name
from prunus.lowering.builder import Activation, GraphBuilder, Scores
from prunus.lowering.views import View, in_order

NO_ACTIVATION: Activation = ("none", 0.0)
Shape = tuple[int, ...]  # of a traced tensor
Shown = tuple[View, Shape]


def _operands(builder: GraphBuilder, node: fx.Node) -> tuple[list[str], list[Any] | None] | None:
    """Return the names of the two values that an operator joins, or of one, and the constant of each domain."""
    if len(node.args) != 2 or node.kwargs:
        return None
    names = [read.name for read in node.args if isinstance(read, fx.Node) and read.name in builder.values]
    if len(names) == 2:
        return names, None
    other = next(arg for arg in node.args if not (isinstance(arg, fx.Node) and arg.name in names))
    constants = builder.constants[other.name] if isinstance(other, fx.Node) else [other] * len(builder.domains)
    return (names, constants) if all(isinstance(constant, (int, float, Tensor)) for constant in constants) else None


def add(builder: GraphBuilder, node: fx.Node) -> View | Scores | None:
    """Add two values, or a constant to one."""
    return _combine(builder, node, Add, "bias")


def multiply(builder: GraphBuilder, node: fx.Node) -> View | Scores | None:
    """Multiply two values, or one by a constant."""
    return _combine(builder, node, Mul, "scale")


def _combine(builder: GraphBuilder, node: fx.Node, kind: type[Add | Mul], role: str) -> View | Scores | None:
    if (operands := _operands(builder, node)) is None:
        return None
    names, constants = operands
    if constants is not None:
        return _with_constant(builder, node, names[0], constants, role)
    shown = [(builder.view(name), builder.traced.shapes[name]) for name in names]
    return _join(builder, builder.traced.shapes[node.name], shown, kind)


def _join(builder: GraphBuilder, shape: Shape, shown: Sequence[Shown], kind: type[Add | Mul]) -> View | None:
    """Join two views, the smaller in the order of the larger; one pixel may be multiplied with all."""
    larger = [position for position, (_, sides) in enumerate(shown) if sides == shape]
    if not larger:
        return None
    whole = (p for p in larger if shown[p][0].shows_all(prod(builder.value_shapes[shown[p][0].value])))
    first = next(whole, None)
    if first is None:
        first = larger[0]
        view = View(builder.put_in_order(*shown[first]))
    else:
        view = shown[first][0]
    other = _arranged(builder, view, shape, shown[1 - first], one_pixel=kind is Mul)
    operation = kind.model_validate({"op": operation_name(kind), "inputs": (view.value, other)})
    return View(builder.add(operation), view.positions)


def _arranged(builder: GraphBuilder, view: View, shape: Shape, shown: Shown, one_pixel: bool) -> int:
    """Return a value with the numbers of a view where another value has those that they meet."""
    (other, sides), target = shown, builder.value_shapes[view.value]
    if view.positions is None and other.positions is None:
        is_pixel = one_pixel and len(sides) == len(shape) == 4 and sides[1:] == (target[0], 1, 1)
        fitting = (target[0], 1, 1) if is_pixel else target
        if builder.value_shapes[other.value] == fitting and (is_pixel or sides == shape):
            return other.value
    met = other.over(sides).expand(shape).flatten()
    wanted = torch.empty_like(met)
    wanted[view.over(shape).flatten()] = met
    wanted_CP = wanted.reshape(target[0], -1)
    if one_pixel and target[1] * target[2] > 1 and bool((wanted_CP == wanted_CP[:, :1]).all()):
        return builder.copied(View(other.value, wanted_CP[:, 0]), (target[0],), (target[0], 1, 1))
    return builder.copied(View(other.value, wanted), wanted.shape, target)


def _with_constant(
    builder: GraphBuilder, node: fx.Node, name: str, constants: Sequence[Any], role: str
) -> View | Scores | None:
    """Add a constant to a value, or multiply it."""
    shape = builder.traced.shapes[name]
    traced = builder.values[name]
    if builder.traced.shapes[node.name] != shape:
        return None
    number = _same_number(constants)
    if isinstance(traced, Scores):
        return _scores_with(traced, number, constants, role)
    if not isinstance(traced, View):
        return None
    numbers = prod(builder.value_shapes[traced.value])
    if number is not None and role == "scale" and not traced.shows_all(numbers):
        return View(traced.value, traced.positions, traced.factor * number)
    view = builder.whole(name)
    return View(_changed(builder, view, shape, constants, role), view.positions)


def _changed(builder: GraphBuilder, view: View, shape: Shape, constants: Sequence[Any], role: str) -> int:
    """Append a scale or a bias: of every channel, or else of every number."""
    channels, *sides = builder.value_shapes[view.value]
    rows_DT = torch.stack([torch.as_tensor(constant).double().expand(shape).flatten() for constant in constants])
    numbers_DT = torch.empty_like(rows_DT)
    numbers_DT[:, view.over(shape).flatten()] = rows_DT
    numbers_DCP = numbers_DT.reshape(len(constants), channels, -1)
    if bool((numbers_DCP == numbers_DCP[..., :1]).all()):
        return builder.activate(view.value, NO_ACTIVATION, {role: numbers_DCP[..., 0].numpy()})
    operation = AffineMap(op="affine_map", inputs=(view.value,), sides=(sides[0], sides[1]))
    return builder.add(operation, {role: numbers_DCP.reshape(len(constants), channels, *sides).numpy()})


def _same_number(constants: Sequence[Any]) -> float | None:
    """Return the number that a constant is in all domains, if it is one."""
    tensors = [torch.as_tensor(constant) for constant in constants]
    if any(tensor.numel() != 1 for tensor in tensors):
        return None
    numbers = {float(tensor) for tensor in tensors}
    return numbers.pop() if len(numbers) == 1 else None


def _scores_with(scores: Scores, number: float | None, constants: Sequence[Any], role: str) -> Scores | None:
    if scores.is_softmax:
        return None
    if role == "bias":
        before = scores.bias or (torch.zeros(()),) * len(constants)
        bias = tuple(old + torch.as_tensor(new) for old, new in zip(before, constants, strict=True))
        return Scores(scores.first, scores.second, scores.factor, bias)
    if number is None:
        return None
    bias_D = None if scores.bias is None else tuple(bias * number for bias in scores.bias)
    return Scores(scores.first, scores.second, scores.factor * number, bias_D)


def power(builder: GraphBuilder, node: fx.Node) -> View | None:
    """Multiply a value by itself."""
    if builder.settings(node, ("exponent",)).get("exponent", 2) != 2:
        return None
    view = builder.whole(builder.first(node))
    return View(builder.add(Mul(op="mul", inputs=(view.value, view.value))), view.positions)


def divide(builder: GraphBuilder, node: fx.Node) -> View | Scores | None:
    """Divide a value by a constant."""
    if (operands := _operands(builder, node)) is None:
        return None
    names, constants = operands
    if constants is None or getattr(node.args[0], "name", None) != names[0]:
        return None
    inverses = [1.0 / torch.as_tensor(constant).double() for constant in constants]
    return _with_constant(builder, node, names[0], inverses, "scale")


def add_product(builder: GraphBuilder, node: fx.Node) -> View | None:
    """Multiply a value by a constant and add another, as torch's `addcmul` does."""
    if len(node.args) != 3 or node.kwargs:
        return None
    names = [str(getattr(arg, "name", "")) for arg in node.args]
    values = [name for name in names if name in builder.values]
    if len(values) != 1 or names[0] in values:
        return None
    factor = next(name for name in names[1:] if name not in values)
    if builder.traced.shapes[node.name] != (shape := builder.traced.shapes[values[0]]):
        return None
    view = builder.whole(values[0])
    for name, role in ((factor, "scale"), (names[0], "bias")):
        view = View(_changed(builder, view, shape, builder.constants[name], role), view.positions)
    return view


def negate(builder: GraphBuilder, node: fx.Node) -> View | Scores | None:
    """Change the sign of a value."""
    return _with_constant(builder, node, builder.first(node), [-1.0] * len(builder.domains), "scale")


def subtract(builder: GraphBuilder, node: fx.Node) -> View | Scores | None:
    """Subtract values or constants from each other, as sums."""
    return _subtract(builder, node, list(node.args))


def subtract_from(builder: GraphBuilder, node: fx.Node) -> View | Scores | None:
    """Subtract the first from the second, as torch's `2 - x` arrives."""
    return _subtract(builder, node, list(node.args)[::-1])


def _subtract(builder: GraphBuilder, node: fx.Node, args: Sequence[Any]) -> View | Scores | None:
    if (operands := _operands(builder, node)) is None:
        return None
    names, constants = operands
    is_minuend = getattr(args[0], "name", None) == names[0]
    if constants is not None and is_minuend:
        negatives = [-torch.as_tensor(constant).double() for constant in constants]
        return _with_constant(builder, node, names[0], negatives, "bias")
    subtrahend = str(getattr(args[1], "name", ""))
    shape, view = builder.traced.shapes[subtrahend], builder.whole(subtrahend)
    negative = View(_changed(builder, view, shape, [-1.0] * len(builder.domains), "scale"), view.positions)
    if constants is not None:
        return View(_changed(builder, negative, shape, constants, "bias"), negative.positions)
    minuend = str(getattr(args[0], "name", ""))
    shown = [(builder.view(minuend), builder.traced.shapes[minuend]), (negative, shape)]
    return _join(builder, builder.traced.shapes[node.name], shown, Add)


def concatenate(builder: GraphBuilder, node: fx.Node) -> View | None:
    """Join values along their channels or along their pixels."""
    parts = node.args[0] if node.args else node.kwargs.get("tensors")
    dim = node.kwargs.get("axis", builder.settings(node, ("dim",)).get("dim", 0))
    if not isinstance(parts, (tuple, list)) or not isinstance(dim, int):
        return None
    shape = builder.traced.shapes[node.name]
    axis = dim % len(shape)
    names = [part.name for part in parts if isinstance(part, fx.Node)]
    values = [name for name in names if name in builder.values]
    if len(names) == 1:
        return builder.view(names[0])
    if _joins_channels(builder, values, axis):
        return _join_channels(builder, names, axis) if len(values) == len(names) else None
    return _join_pixels(builder, names, axis, shape)


def _joins_channels(builder: GraphBuilder, values: Sequence[str], axis: int) -> bool:
    """Return whether an axis holds channels of the value that has most numbers along it."""
    name = max(values, key=lambda name: builder.traced.shapes[name][axis])
    view, shape = builder.view(name), builder.traced.shapes[name]
    if view.positions is None and len(shape) in (2, 4):
        return axis == 1
    _, height, width = builder.value_shapes[view.value]
    channels = view.over(shape).movedim(axis, 0).flatten(1)[:, 0] // (height * width)
    return len(channels) > 1 and bool((channels != channels[0]).any())


def _join_channels(builder: GraphBuilder, names: Sequence[str], axis: int) -> View:
    if all(len(builder.traced.shapes[name]) == 4 and builder.view(name).positions is None for name in names):
        return View(builder.add(Cat(op="cat", inputs=tuple(builder.ordered(name) for name in names))))
    parts = [builder.pixelwise(name, axis) for name in names]
    value, pixels = parts[0]
    sides = builder.value_shapes[value][1:]
    is_same = all(torch.equal(other, pixels) and builder.value_shapes[number][1:] == sides for number, other in parts)
    if not is_same:
        rest = pixels.shape
        parts = [(_in_pixel_order(builder, number, other), torch.arange(other.numel())) for number, other in parts]
        pixels = torch.arange(pixels.numel()).reshape(rest)
    return builder.shown(builder.add(Cat(op="cat", inputs=tuple(number for number, _ in parts))), pixels, axis)


def _in_pixel_order(builder: GraphBuilder, value: int, pixels: Tensor) -> int:
    """Return a value whose pixels are in the order of some pixels; it is one row, unless they are in it already."""
    channels, height, width = builder.value_shapes[value]
    if in_order(pixels) is None:
        return value
    positions = torch.arange(channels)[:, None] * (height * width) + pixels.flatten()
    return builder.copied(View(value, positions), positions.shape, (channels, 1, pixels.numel()))


def _join_pixels(builder: GraphBuilder, names: Sequence[str], axis: int, shape: Sequence[int]) -> View | None:
    """Join rows of pixels, the first of which may be constants."""
    if len(shape) != 3 or shape[0] != 1 or axis == 0:
        return None
    last = 3 - axis  # the axis of the channels
    first = next(position for position, name in enumerate(names) if name in builder.values)
    values, constants = names[first:], names[:first]
    if any(name not in builder.values for name in values):
        return None
    rows = [
        torch.cat([builder.constants[name][domain].double() for name in constants] or [torch.empty(0)], axis)
        for domain in range(len(builder.domains))
    ]
    count = rows[0].shape[axis] if constants else 0
    tokens_D: Doubles | None = torch.stack([row[0].movedim(last - 1, 0) for row in rows]).numpy() if count else None
    inputs = tuple(_in_pixel_order(builder, *builder.pixelwise(name, last)) for name in values)
    value = builder.add(JoinPixels(op="join_pixels", inputs=inputs, count=count), {"tokens": tokens_D})
    return builder.shown(value, torch.arange(shape[axis]).reshape(1, -1), last)
