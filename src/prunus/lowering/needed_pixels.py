"""Compute only the pixels that are read: what happens to each pixel by itself is done to those that are selected later.

A transformer's classifier reads one token. So the last block's norms, linear layers and queries are computed for that
token alone.
"""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import prod

from prunus.graph.network import Node
from prunus.graph.operations import Operation, Rearrange, Shape
from prunus.graph.shapes import value_shapes


@dataclass(frozen=True)
class _Selection:
    """Pixels that a rearrangement takes of all channels, some apart from each other, and the sides that they get."""

    first: int
    stride: int
    sides: tuple[int, int]


def compute_needed_pixels(nodes: Sequence[Node], image_size: int) -> tuple[Node, ...]:
    """Move every selection of pixels before the operations that compute pixels one by one."""
    changed = tuple(nodes)
    number = 0
    while number < len(changed):
        shapes = value_shapes(tuple(node.operation for node in changed), image_size)
        selection = _selection(changed[number].operation, shapes)
        moved = _moved(changed, number, selection, shapes) if selection else None
        changed, number = (moved, 0) if moved else (changed, number + 1)
    return changed


def _selection(operation: Operation, shapes: Sequence[Shape]) -> _Selection | None:
    if not isinstance(operation, Rearrange):
        return None
    channels, height, width = shapes[operation.inputs[0]]
    pixels = height * width
    sizes, strides = (*operation.sizes, 1), (*operation.strides, 1)
    is_selection = (sizes[0], strides[0]) == (channels, pixels) and len(operation.sizes) < 3 and channels > 1
    if not is_selection or operation.target[0] != channels or sizes[1] >= pixels:
        return None
    return _Selection(operation.offset, strides[1], operation.target[1:])


def _moved(
    nodes: Sequence[Node], number: int, selection: _Selection, shapes: Sequence[Shape]
) -> tuple[Node, ...] | None:
    """Return the nodes with a selection at the earliest place; None if it is there already."""
    narrow = _narrowed(nodes, number)
    if not narrow:
        return None
    result: list[Node] = []
    numbers = {0: 0}  # value before -> after
    selected: dict[int, int] = {}  # value before -> value after of its selected pixels

    def select(value: int) -> int:
        if value not in selected:
            channels, height, width = shapes[value]
            operation = Rearrange(
                op="rearrange",
                inputs=(numbers[value],),
                target=(channels, *selection.sides),
                sizes=(channels, prod(selection.sides)),
                strides=(height * width, selection.stride),
                offset=selection.first,
            )
            result.append(Node(operation))
            selected[value] = len(result)
        return selected[value]

    for position, node in enumerate(nodes):
        value = position + 1
        if position == number:
            numbers[value] = selected[node.operation.inputs[0]]
            continue
        pixelwise = node.operation.pixelwise_inputs() if value in narrow else ()
        inputs = tuple(
            select(source) if place in pixelwise else numbers[source]
            for place, source in enumerate(node.operation.inputs)
        )
        result.append(replace(node, operation=node.operation.model_copy(update={"inputs": inputs})))
        (selected if value in narrow else numbers)[value] = len(result)
    return tuple(result)


def _narrowed(nodes: Sequence[Node], number: int) -> set[int]:
    """Return the values of which only the selected pixels are needed."""
    readers: dict[int, set[int]] = defaultdict(set)
    for position, node in enumerate(nodes):
        for value in node.operation.inputs:
            readers[value].add(position)
    readers[len(nodes)].add(len(nodes))  # the classifier
    narrow: set[int] = set()
    for value in range(number, 0, -1):  # values that are computed before the selection
        is_needed_narrow = all(
            reader == number or (reader + 1 in narrow and _reads_pixelwise(nodes[reader].operation, value))
            for reader in readers[value]
        )
        if readers[value] and is_needed_narrow and nodes[value - 1].operation.pixelwise_inputs():
            narrow.add(value)
    return narrow if nodes[number].operation.inputs[0] in narrow else set()


def _reads_pixelwise(operation: Operation, value: int) -> bool:
    positions = operation.pixelwise_inputs()
    return all(place in positions for place, source in enumerate(operation.inputs) if source == value)
