"""Join operations that an engine computes in one pass: a convolution with its norm, its residual and its activation.

An operation is joined only with one whose result it alone reads. The joined operation takes the later one's position.
"""

from collections import Counter
from collections.abc import Sequence

import numpy as np

from prunus.graph.network import Node, scale_and_bias, without_neutral
from prunus.graph.operations import Add, Affine, Conv, Mul


def fuse(nodes: Sequence[Node]) -> tuple[Node, ...]:
    """Join what can be joined, and drop operations whose results nothing reads."""
    fused: list[Node | None] = list(nodes)
    readers = Counter(value for node in nodes for value in node.operation.inputs)
    readers[len(nodes)] += 1  # the classifier
    for number, node in enumerate(nodes):
        for value in sorted(set(node.operation.inputs), reverse=True):  # of two candidates, join the later
            source = fused[value - 1] if value and readers[value] == 1 else None
            joined = _join(source, node, value) if source else None
            if joined:
                fused[number] = joined
                fused[value - 1] = None
                break
    return _renumber(fused)


def _join(source: Node, node: Node, value: int) -> Node | None:
    if isinstance(node.operation, Add):
        return _with_residual(source, node.operation, value)
    return _with_affine(source, node) if isinstance(node.operation, Affine) else None


def _with_residual(source: Node, add: Add, value: int) -> Node | None:
    conv = source.operation
    if not isinstance(conv, Conv) or conv.activation != "none" or len(conv.inputs) > 1:
        return None
    residual = next(operand for operand in add.inputs if operand != value)
    update = {"inputs": (conv.inputs[0], residual), "activation": add.activation, "slope": add.slope}
    return Node(conv.model_copy(update=update), source.tensors)


def _with_affine(source: Node, node: Node) -> Node | None:
    first, second = source.operation, node.operation
    if not isinstance(first, (Conv, Affine, Add, Mul)) or first.activation != "none":
        return None
    assert isinstance(second, Affine)
    last = first.model_copy(update={"activation": second.activation, "slope": second.slope})
    if not node.tensors:
        return Node(last, source.tensors)
    if not isinstance(first, (Conv, Affine)) or len(first.inputs) > 1:  # a residual would be scaled as well
        return None
    shape_DC = next(iter(node.tensors.values())).shape
    scale, bias = scale_and_bias(source.tensors, shape_DC)
    second_scale, second_bias = scale_and_bias(node.tensors, shape_DC)
    merged = {"scale": scale * second_scale, "bias": bias * second_scale + second_bias}
    return Node(last, without_neutral({**source.tensors, **merged}))


def _renumber(nodes: Sequence[Node | None]) -> tuple[Node, ...]:
    """Number the values anew, without those that nothing reads."""
    needed = {len(nodes)}
    for value in range(len(nodes), 0, -1):
        node = nodes[value - 1]
        if value in needed and node:
            needed |= set(node.operation.inputs)
    kept = [(value, node) for value, node in enumerate(nodes, 1) if value in needed and node]
    numbers = {0: 0} | {value: number for number, (value, _) in enumerate(kept, 1)}
    return tuple(
        Node(
            node.operation.model_copy(update={"inputs": tuple(numbers[value] for value in node.operation.inputs)}),
            {role: np.ascontiguousarray(tensor) for role, tensor in node.tensors.items()},
        )
        for _, node in kept
    )
