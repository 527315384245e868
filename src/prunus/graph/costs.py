"""What a model file would cost: seconds and bytes to load it and to classify one image, computed from its header.

The figures are upper estimates for the slower and the larger of the engines, with one thread. They are computed before
anything is allocated, so that a small file cannot declare work for hours or values for gigabytes.

Legend: *taps* are the pixels of a window. The *lattice* is the grid on which the native engine slides a window: the
output's pixels, or the input's divided by the stride if those are more.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from math import ceil, gcd, prod
from typing import Any

from prunus.graph.limits import (
    IMAGE_BYTES,
    IMAGE_SECONDS,
    LOAD_BYTES,
    LOAD_BYTES_PER_BYTE,
    LOAD_SECONDS,
    LOAD_SECONDS_PER_BYTE,
    MAX_CACHED_BYTES,
)
from prunus.graph.operations import Attention, Conv, Graph, Operation, Pool, Shape

FLOAT = 4  # bytes
BLOCK = 16  # floats: the native engine rounds planes up to an odd number of these
OUTPUT_BLOCK = 128  # outputs that share a list of kernels in the native engine
COLUMN_NUMBERS = 2**18  # that the numpy engine copies at once, if a row has no more

# nanoseconds, measured with one thread of an AMD EPYC, about doubled; see docs/model-file.md
VALUE, OPERATION, PAIR, ARRAY, BYTE = 3_000, 50_000, 3, 25_000, 5  # of JSON; of the graph; of two operations; of data
KERNEL, USE, BIT = 10, 5, 5  # of a layer; of a domain; of a window
STEP, SLICE, GROUP = 60_000, 10_000, 4_000  # calls of the numpy engine
MAC, WINDOW_NUMBER, DEPTHWISE_NUMBER, POOLED_NUMBER = 0.25, 10, 4, 3
SPLIT_NUMBER, READ_NUMBER, DENSE_WEIGHT, HEAD_NUMBER = 20, 3, 20, 4
CHEAP, CURVED, COSTLY = 8, 20, 40
ACTIVATION = dict.fromkeys(("elu", "silu", "sigmoid", "tanh", "gelu_tanh"), CURVED) | {"gelu": COSTLY, "mish": COSTLY}
INTEGER_STEP, INTEGER_ROW, INTEGER_FACTOR = 500_000, 50_000, 60  # of 8 bits: an operation; for a domain; a channel
CODED_KERNEL, CODED_USE = 60, 10
SCORE, MOVED_NUMBER = 30, 10  # of attention; of a rearrangement
EXACT = 2  # times as long and as large in numpy, which computes exact sums in double precision

# bytes
FACTOR_BYTES, TABLE_BYTES, CODED_KERNEL_BYTES, BIAS_BYTES = 48, 512, 40, 32
MOST_COPIED = 2**26  # of weights and their inputs, which the native engine selects once
LISTED_BYTES = 150  # of a pixel of a window, as a number of Python too
BASE_BYTES, VALUE_BYTES, ARRAY_BYTES, OPERATION_BYTES = 30_000_000, 160, 1_500, 3_000


@dataclass(frozen=True)
class Claims:
    """What a header declares besides its graph.

    Args:
        decoded_bytes: what decoding masks that are coded together takes.
        values: the values of its JSON.
        arrays: the arrays of all domains.
        kept: the kept kernels of each layer.
        index_bytes: what decoding the largest index takes.
        has_ones: whether convolutions have kernels over ones, which engines prepare for each domain.
        integers: the operations that compute with 8-bit integers.
    """

    data_bytes: int
    decoded_bytes: int
    values: int
    arrays: int
    domains: int
    classes: int
    kept: Mapping[str, int]
    index_bytes: int
    has_ones: bool
    integers: Collection[int] = ()


@dataclass(frozen=True)
class Cost:
    """Seconds and bytes, of the operations of a graph or of a whole file."""

    load_seconds: float = 0.0
    load_bytes: float = 0.0
    image_seconds: float = 0.0
    image_bytes: float = 0.0

    def __add__(self, other: Cost) -> Cost:
        return Cost(
            self.load_seconds + other.load_seconds,
            self.load_bytes + other.load_bytes,
            self.image_seconds + other.image_seconds,
            self.image_bytes + other.image_bytes,
        )


def allowed_cost(file_bytes: int) -> Cost:
    """Return the most that a file of a size may cost."""
    return Cost(
        LOAD_SECONDS + LOAD_SECONDS_PER_BYTE * file_bytes,
        LOAD_BYTES + LOAD_BYTES_PER_BYTE * file_bytes,
        IMAGE_SECONDS,
        IMAGE_BYTES + LOAD_BYTES_PER_BYTE * file_bytes,
    )


def too_much(cost: Cost, allowed: Cost) -> str | None:
    """Return what exceeds the allowed cost, in words; None if nothing does."""
    rows = (
        ("loading it would take up to", "seconds", cost.load_seconds, allowed.load_seconds, 1.0),
        ("loading it would take up to", "MB of memory", cost.load_bytes, allowed.load_bytes, 1e6),
        ("classifying one image would take up to", "seconds", cost.image_seconds, allowed.image_seconds, 1.0),
        ("classifying one image would take up to", "MB of memory", cost.image_bytes, allowed.image_bytes, 1e6),
    )
    for label, unit, amount, most, scale in rows:
        if amount > most:
            shown = ceil(100 * amount / scale) / 100
            return f"{label} {shown:,.2f} {unit}; at most {most / scale:,.1f} are allowed for its size"
    return None


def file_cost(graph: Graph, shapes: Sequence[Shape], claims: Claims) -> Cost:
    """Return what a file costs."""
    inputs = [[shapes[value] for value in operation.inputs] for operation in graph]
    costs = [
        operation_cost(operation, sources, shape, claims)
        for operation, sources, shape in zip(graph, inputs, shapes[1:], strict=True)
    ]
    costs += [integer_cost(graph[number], inputs[number], shapes[number + 1], claims) for number in claims.integers]
    exact = EXACT if claims.integers else 1
    weights = {operation.layer: _weights(operation) for operation in graph if isinstance(operation, Conv)}
    data_bytes = claims.data_bytes + claims.decoded_bytes
    load = (
        claims.values * VALUE + len(graph) * (OPERATION + len(graph) * PAIR) + claims.arrays * ARRAY + data_bytes * BYTE
    )
    load_bytes = BASE_BYTES + claims.values * VALUE_BYTES + claims.arrays * ARRAY_BYTES + len(graph) * OPERATION_BYTES
    head = claims.classes * prod(shapes[-1])
    dense_bytes = exact * FLOAT * sum(weights.values())
    copies = min(max(MAX_CACHED_BYTES, dense_bytes), claims.domains * dense_bytes) + 3 * FLOAT * max(weights.values())
    values_bytes = max(_native_bytes(graph, shapes, inputs), _numpy_bytes(graph, shapes, inputs)) * exact
    return Cost(
        load / 1e9 + sum(cost.load_seconds for cost in costs),
        load_bytes
        + data_bytes
        + max(claims.index_bytes, _largest_coded_layer(graph, claims))
        + sum(cost.load_bytes for cost in costs)
        + min(MOST_COPIED, 2 * FLOAT * claims.domains * sum(claims.kept.values())),
        (sum(weights.values()) * DENSE_WEIGHT + head * HEAD_NUMBER) / 1e9 + sum(cost.image_seconds for cost in costs),
        BASE_BYTES + data_bytes + copies + values_bytes + 2 * FLOAT * head,
    )


def operation_cost(operation: Operation, inputs: Sequence[Shape], shape: Shape, claims: Claims) -> Cost:
    """Return what one operation adds to the time and memory of loading, and to the time of an image."""
    numbers = sum(map(prod, inputs))
    activation = ACTIVATION.get(getattr(operation, "activation", "none"), CHEAP)
    nanoseconds = STEP + numbers * READ_NUMBER + prod(shape) * activation
    cost = Cost(image_seconds=nanoseconds / 1e9)
    if isinstance(operation, Pool):
        return cost + _pool_cost(operation, inputs[0], shape)
    if operation.op in TOKEN_COSTS:
        return cost + TOKEN_COSTS[operation.op](operation, inputs, shape, claims)
    return cost + _conv_cost(operation, inputs[0], shape, claims) if isinstance(operation, Conv) else cost


def integer_cost(operation: Operation, inputs: Sequence[Shape], shape: Shape, claims: Claims) -> Cost:
    """Return what it adds that an operation computes with 8-bit integers."""
    rows = claims.domains * len(inputs)
    factors = claims.domains * shape[0]
    load = INTEGER_STEP + rows * INTEGER_ROW + factors * INTEGER_FACTOR
    if isinstance(operation, Conv):
        kept = claims.kept[operation.layer]
        load += (kept + prod(operation.channels)) * CODED_KERNEL + claims.domains * kept * CODED_USE
    biases = 0
    if isinstance(operation, Attention) and operation.pairs is not None:
        biases = claims.domains * operation.heads * prod(operation.pairs)
        load += biases * INTEGER_FACTOR
    image = (EXACT - 1) * operation_cost(operation, inputs, shape, claims).image_seconds
    return Cost(load / 1e9, rows * TABLE_BYTES + factors * FACTOR_BYTES + biases * BIAS_BYTES, image_seconds=image)


def _largest_coded_layer(graph: Graph, claims: Claims) -> int:
    """Return the bytes that summing up the weights of one layer takes."""
    layers = [graph[number] for number in claims.integers]
    return max(
        (
            8 * prod(conv.channels) + CODED_KERNEL_BYTES * claims.kept[conv.layer]
            for conv in layers
            if isinstance(conv, Conv)
        ),
        default=0,
    )


def _attention_cost(attention: Attention, inputs: Sequence[Shape], shape: Shape, claims: Claims) -> Cost:
    """Count the scores, and the copies of the bias and of the windows' pixels that the native engine keeps."""
    queries, keys = attention.window_pixels(inputs)
    pixels = shape[1] * shape[2]
    scores = attention.heads * pixels * keys
    windows = pixels // queries
    image = scores * (sum(attention.dims) * MAC + SCORE) + attention.heads * windows * STEP / 4
    bias = 0 if attention.pairs is None else claims.domains * attention.heads * keys * _plane(queries)
    listed = 0 if attention.window is None else pixels * LISTED_BYTES + windows * FLOAT * _plane(queries)
    return Cost((bias * USE + pixels * VALUE) / 1e9, FLOAT * bias + listed, image_seconds=image / 1e9)


def _map_cost(operation: Operation, inputs: Sequence[Shape], shape: Shape, claims: Claims) -> Cost:
    """Count the copies of numbers by pixel that the native engine keeps for each domain."""
    numbers = 2 * claims.domains * shape[0] * _plane(shape[1] * shape[2])
    return Cost(numbers * USE / 1e9, FLOAT * numbers)


def _rearrange_cost(operation: Operation, inputs: Sequence[Shape], shape: Shape, claims: Claims) -> Cost:
    """Count the positions that the native engine lists."""
    return Cost(prod(shape) * KERNEL / 1e9, FLOAT * prod(shape), image_seconds=prod(shape) * MOVED_NUMBER / 1e9)


TOKEN_COSTS: dict[str, Callable[[Any, Sequence[Shape], Shape, Claims], Cost]] = {
    "attention": _attention_cost,
    "affine_map": _map_cost,
    "rearrange": _rearrange_cost,
}


def lattice(operation: Conv | Pool, source: Shape, shape: Shape) -> tuple[int, int, int]:
    """Return the lattice of a window: the planes that a stride divides a channel into, rows and columns."""
    dilation = operation.dilation if isinstance(operation, Conv) else (1, 1)
    sides = [max(shape[axis + 1], ceil(source[axis + 1] / operation.stride[axis])) for axis in (0, 1)]
    planes = [
        min(operation.kernel[axis], operation.stride[axis] // gcd(operation.stride[axis], dilation[axis]))
        for axis in (0, 1)
    ]
    return prod(planes), sides[0], sides[1]


def _pool_cost(pool: Pool, source: Shape, shape: Shape) -> Cost:
    planes, rows, columns = lattice(pool, source, shape)
    taps, pixels = prod(pool.kernel), rows * columns
    image = taps * (SLICE / 4 + source[0] * pixels * POOLED_NUMBER) + _split_numbers(pool, source) * SPLIT_NUMBER
    return Cost(
        taps * pixels * BIT / 1e9, _window_bytes(taps, planes, pixels) + FLOAT * pixels, image_seconds=image / 1e9
    )


def _conv_cost(conv: Conv, source: Shape, shape: Shape, claims: Claims) -> Cost:
    planes, rows, columns = lattice(conv, source, shape)
    taps, pixels, kept, domains = prod(conv.kernel), rows * columns, claims.kept[conv.layer], claims.domains
    crops = (rows, columns) != shape[1:]
    is_pointwise = taps == 1 and not any(conv.pads) and not crops
    is_listed = not (is_pointwise or (_is_depthwise(conv, shape) and not crops))
    # beginnings of the native engine's lists of kernels, for each domain, input and block of outputs
    starts = (domains + 1) * ceil(shape[0] / OUTPUT_BLOCK) * (source[0] + 1) if is_listed else 0
    uses = domains * kept if is_listed else domains * ceil(kept / 8)  # others count the bits of a mask
    load = 2 * taps * pixels * BIT + KERNEL * prod(conv.channels) + USE * (uses + starts)
    # a padded convolution of one pixel has its weights in another order; one that keeps most weights has them dense
    own = 2 * FLOAT * kept if is_pointwise else 4 * FLOAT * prod(conv.channels) if taps == 1 else kept
    load_bytes = 2 * FLOAT * starts + uses + own + _window_bytes(taps, planes, pixels)
    load_bytes += FLOAT * shape[0] * (ceil(conv.channels[1] / 96) + 2)
    if claims.has_ones:
        load_bytes += FLOAT * (domains * shape[0] + 2 * _reach(conv, columns) + planes * _plane(pixels))
        load += domains * shape[0] * USE
    return Cost(load / 1e9, load_bytes, image_seconds=_conv_nanoseconds(conv, source, shape, pixels) / 1e9)


def _conv_nanoseconds(conv: Conv, source: Shape, shape: Shape, pixels: int) -> float:
    taps, depth, split = prod(conv.kernel), conv.channels[1], _split_numbers(conv, source) * SPLIT_NUMBER
    if _is_depthwise(conv, shape):
        return taps * (SLICE / 4 + 2 * shape[0] * pixels * DEPTHWISE_NUMBER) + split
    windows = (source[0] + 1) * taps * shape[1] * shape[2]
    row = max(1, (source[0] + 1) * taps * shape[2])
    chunks = ceil(shape[1] / max(1, COLUMN_NUMBERS // row))
    macs = shape[0] * (depth + 1) * taps * pixels
    calls = chunks * (taps * SLICE + conv.groups * GROUP)
    return macs * MAC + windows * WINDOW_NUMBER + calls + split


def _is_depthwise(conv: Conv, shape: Shape) -> bool:
    return conv.channels[1] == 1 and conv.groups == shape[0]


def _split_numbers(operation: Conv | Pool, source: Shape) -> int:
    """Count the numbers that the native engine sorts into planes."""
    return prod(source) if max(operation.stride) > 1 else 0


def _window_bytes(taps: int, planes: int, pixels: int) -> float:
    """Return the bytes of a window's offsets, and of its bits, two bytes for 16 pixels of a tap."""
    return 2 * taps * ceil(pixels / BLOCK) + 56 * taps + 8 * planes


def _reach(operation: Conv | Pool, columns: int) -> int:
    """Return how far from its own pixel a window reads, in pixels of the lattice."""
    dilation = operation.dilation if isinstance(operation, Conv) else (1, 1)
    down, right = (
        max(operation.pads[axis], (operation.kernel[axis] - 1) * dilation[axis]) // operation.stride[axis] + 1
        for axis in (0, 1)
    )
    return down * columns + right + 8 * BLOCK


def _plane(pixels: int) -> int:
    return (ceil(pixels / BLOCK) | 1) * BLOCK


def _weights(conv: Conv) -> int:
    return prod(conv.channels) * prod(conv.kernel)


def _native_bytes(graph: Graph, shapes: Sequence[Shape], inputs: Sequence[Sequence[Shape]]) -> float:
    """Return the most bytes of one image's values in the native engine, whose slots are reused but never shrink."""
    sizes = [channels * _plane(height * width) for channels, height, width in shapes]
    home = _homes(graph)
    first: dict[int, int] = {}
    last: dict[int, int] = {}
    for value in range(len(shapes)):
        first.setdefault(home[value], value)
        last[home[value]] = max(last.get(home[value], 0), value)
    for number, operation in enumerate(graph):
        for value in operation.inputs:
            last[home[value]] = max(last[home[value]], number + 1)
    changes = [0] * (len(shapes) + 1)
    for outer, start in first.items():
        changes[start] += 1
        changes[last[outer] + 1 if outer != home[-1] else len(shapes)] -= 1
    slots = max(accumulate(changes)) + 1
    windows = [
        (operation, sources[0], shape, lattice(operation, sources[0], shape))
        for operation, sources, shape in zip(graph, inputs, shapes[1:], strict=True)
        if isinstance(operation, (Conv, Pool))
    ]
    slack = max((_reach(operation, columns) for operation, _, _, (_, _, columns) in windows), default=0)
    split = max((source[0] * planes * _plane(h * w) for _, source, _, (planes, h, w) in windows), default=0)
    cropped = max((shape[0] * _plane(h * w) for _, _, shape, (_, h, w) in windows), default=0)
    held = sum(sorted((sizes[outer] for outer in first), reverse=True)[:slots])
    return float(FLOAT * (held + (slots + 3) * slack + split + cropped))


def _homes(graph: Graph) -> list[int]:
    """Return for every value the one in whose memory the native engine writes it: its own, or that of a join."""
    within = list(range(len(graph) + 1))
    for number, operation in enumerate(graph):
        if operation.op in ("cat", "append_zeros"):
            for value in operation.inputs:
                if value > 0 and within[value] == value:
                    within[value] = number + 1
    for value in range(len(graph), -1, -1):
        within[value] = within[within[value]]
    return within


def _numpy_bytes(graph: Graph, shapes: Sequence[Shape], inputs: Sequence[Sequence[Shape]]) -> float:
    """Return the most bytes of one image's values and temporary arrays in the numpy engine."""
    last = {value: value - 1 for value in range(len(shapes))}
    last |= {value: number for number, operation in enumerate(graph) for value in operation.inputs}
    freed = [0] * (len(graph) + 1)
    for value, number in last.items():
        freed[max(number, 0)] += prod(shapes[value])
    live, most = prod(shapes[0]), 0
    for number, operation in enumerate(graph):
        live += prod(shapes[number + 1])
        most = max(most, live + _temporary_numbers(operation, inputs[number], shapes[number + 1]))
        live -= freed[number]
    return float(FLOAT * most)


def _temporary_numbers(operation: Operation, inputs: Sequence[Shape], shape: Shape) -> int:
    numbers = 6 * prod(shape)
    if isinstance(operation, Attention):
        queries, keys = operation.window_pixels(inputs)
        return numbers + 6 * shape[1] * shape[2] * keys + 4 * sum(map(prod, inputs)) + queries * keys
    if not isinstance(operation, (Conv, Pool)):
        return numbers
    channels, height, width = inputs[0]
    top, left, bottom, right = operation.pads
    ends = [(shape[axis + 1] - 1) * operation.stride[axis] + operation.kernel[axis] for axis in (0, 1)]
    padded = channels * max(ends[0], height + top + bottom) * max(ends[1], width + left + right)
    if isinstance(operation, Pool):
        return numbers + padded
    row = (channels + 1) * prod(operation.kernel) * shape[2]
    return 2 * numbers + 5 * prod(inputs[0]) + 2 * padded + 2 * max(COLUMN_NUMBERS, row)
