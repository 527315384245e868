"""The shape of every value of a graph; whatever does not fit is refused."""

from math import prod

from prunus.errors import BundleError
from prunus.graph.limits import MAX_ALL_NUMBERS, MAX_NUMBERS, MAX_WINDOW_NUMBERS
from prunus.graph.operations import Graph, Shape


def value_shapes(graph: Graph, image_size: int) -> list[Shape]:
    """Return the shape of every value, the image first."""
    shapes: list[Shape] = [(3, image_size, image_size)]
    for number, operation in enumerate(graph):
        label = f"operation {number} ({operation.op})"
        if any(value > number for value in operation.inputs):
            raise BundleError(f"{label} reads a value that is computed after it")
        try:
            shape = operation.shape([shapes[value] for value in operation.inputs])
        except BundleError as error:
            raise BundleError(f"{label} {error}") from None
        kernel = getattr(operation, "kernel", (0, 0))  # others read no windows
        windows = shapes[operation.inputs[0]][0] * prod(kernel) * shape[1] * shape[2]
        if min(shape) < 1 or prod(shape) > MAX_NUMBERS or windows > MAX_WINDOW_NUMBERS:
            raise BundleError(f"{label} makes the impossible shape {shape}")
        shapes.append(shape)
    if sum(map(prod, shapes)) > MAX_ALL_NUMBERS:
        raise BundleError(f"the values of the network hold more than {MAX_ALL_NUMBERS} numbers together")
    return shapes
