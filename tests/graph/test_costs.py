"""Estimated costs are upper bounds of what the engines take, and grow with what a file declares."""

import tracemalloc
from dataclasses import replace
from math import prod
from typing import Any

import numpy as np
import pytest

from prunus.bundle.bundle import Bundle
from prunus.graph.costs import (
    BASE_BYTES,
    Claims,
    Cost,
    _temporary_numbers,
    allowed_cost,
    file_cost,
    lattice,
    operation_cost,
    too_much,
)
from prunus.graph.operations import Conv, Graph, Pool
from prunus.graph.shapes import value_shapes
from prunus.runtime.native_engine import NativeEngine
from prunus.runtime.numpy_engine import NumpyEngine
from tests.makers.graph_bundles import convolution, make_graph, random_bundle, varied_graph

CLAIMS = Claims(
    data_bytes=0,
    decoded_bytes=0,
    values=0,
    arrays=0,
    domains=1,
    classes=1,
    kept={"layer": 0},
    index_bytes=0,
    has_ones=False,
)
LAYER = convolution("layer", (0,), (4, 3))


def _cost(graph: Graph, side: int, **changes: Any) -> Cost:  # noqa: ANN401
    return file_cost(graph, value_shapes(graph, side), replace(CLAIMS, **changes))


def _claims(bundle: Bundle) -> Claims:
    manifest = bundle.manifest
    return Claims(
        data_bytes=sum(array.nbytes for array in bundle.arrays.values()),
        decoded_bytes=0,
        values=0,
        arrays=len(bundle.arrays),
        domains=len(bundle.domains),
        classes=3,
        kept={layer: len(bundle.arrays[f"kernels/{layer}"]) for layer in manifest.convs},
        index_bytes=0,
        has_ones=True,
    )


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("side", [12, 60])
def test_no_engine_takes_more_memory_for_an_image_than_estimated(seed: int, side: int) -> None:
    bundle = random_bundle(varied_graph(seed), side, ("a",), density=0.6, seed=seed)
    estimate = file_cost(bundle.manifest.graph, bundle.manifest.shapes, _claims(bundle)).image_bytes - BASE_BYTES
    native, numpy_engine = NativeEngine(bundle), NumpyEngine(bundle)
    assert native.image_bytes < estimate
    images = np.random.default_rng(0).standard_normal((1, 3, side, side)).astype(np.float32)
    images[:, 0, ::3] = 1e38  # overflows are the most expensive
    tracemalloc.start()
    try:
        numpy_engine.logits(images, "a")
        assert tracemalloc.get_traced_memory()[1] < estimate
    finally:
        tracemalloc.stop()


def test_values_that_are_needed_to_the_end_are_counted_together() -> None:
    """Twenty values of 1024 x 32 x 32 floats, and the same number one after the other."""
    wide = {"op": "append_zeros", "inputs": (0,), "count": 1021}
    apart = [{"op": "add", "inputs": (1, 1)} for _ in range(20)]
    sums = [{"op": "add", "inputs": (21 + number, 2 + number)} for number in range(20)]
    chain = [{"op": "add", "inputs": (1 + number, 1 + number)} for number in range(40)]
    last = convolution("layer", (41,), (1, 1024), kernel=(1, 1), pads=(0, 0, 0, 0))
    together, one_by_one = (
        _cost(make_graph(wide, *operations, last), 32).image_bytes for operations in (apart + sums, chain)
    )
    value = 4 * 1024 * 32 * 32
    assert together > 21 * value + BASE_BYTES
    assert one_by_one < 12 * value + BASE_BYTES


def test_a_join_holds_its_inputs_from_the_first_to_the_last_reader() -> None:
    operations: list[dict[str, Any]] = [convolution(f"l{number}", (0,), (32, 3)) for number in range(8)]
    graph = make_graph(*operations, {"op": "cat", "inputs": tuple(range(1, 9))})
    bundle = random_bundle(graph, 40, ("a",), density=0.5)
    estimate = file_cost(graph, bundle.manifest.shapes, _claims(bundle)).image_bytes - BASE_BYTES
    assert 4 * 256 * 1600 < NativeEngine(bundle).image_bytes < estimate


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({}, (1, 20, 20)),
        ({"stride": (2, 2)}, (4, 10, 10)),  # 3 x 3 taps read all four planes
        ({"stride": (2, 2), "kernel": (1, 1), "pads": (0, 0, 0, 0)}, (1, 10, 10)),
        ({"stride": (2, 2), "dilation": (2, 2), "pads": (2, 2, 2, 2)}, (1, 10, 10)),
        ({"stride": (4, 1), "pads": (0, 0, 0, 0)}, (3, 5, 20)),
        ({"pads": (4, 4, 4, 4)}, (1, 26, 26)),
    ],
)
def test_the_lattice_holds_the_input_and_the_output(fields: dict[str, Any], expected: tuple[int, ...]) -> None:
    (conv,) = make_graph(LAYER | fields)
    assert isinstance(conv, Conv)
    assert lattice(conv, (3, 20, 20), conv.shape([(3, 20, 20)])) == expected


def test_a_convolution_costs_its_multiply_accumulates() -> None:
    """Doubling the inputs of a large layer about doubles the seconds."""
    small, large = (
        _cost(
            make_graph(
                {"op": "append_zeros", "inputs": (0,), "count": inputs - 3}, convolution("layer", (1,), (512, inputs))
            ),
            56,
        ).image_seconds
        for inputs in (256, 512)
    )
    assert small > 512 * 256 * 9 * 56 * 56 * 0.25e-9
    assert 1.8 < large / small < 2.1


def test_every_declared_amount_adds_to_the_cost_of_loading() -> None:
    graph = make_graph(LAYER)
    changes: dict[str, Any]
    base = _cost(graph, 8)
    for changes in (
        {"values": 1000},
        {"arrays": 1000},
        {"data_bytes": 10**6},
        {"domains": 1000, "kept": {"layer": 12}},
    ):
        cost = _cost(graph, 8, **changes)
        assert cost.load_seconds > base.load_seconds, changes
        assert cost.load_bytes > base.load_bytes, changes
    assert _cost(graph, 8, index_bytes=1000).load_bytes == base.load_bytes + 1000
    assert _cost(graph, 8, has_ones=True).load_bytes > base.load_bytes


def test_windows_are_prepared_for_every_pixel_of_the_lattice() -> None:
    pool = Pool(op="pool", inputs=(0,), kind="max", kernel=(5, 5), stride=(1, 1), pads=(2, 2, 2, 2))
    cost = operation_cost(pool, [(3, 64, 64)], (3, 64, 64), CLAIMS)
    assert cost.load_bytes > prod((5, 5, 64, 64)) / 8  # a bit for every tap and pixel
    assert cost.load_seconds == pytest.approx(prod((5, 5, 64, 64)) * 5e-9)


def test_loading_a_convolution_takes_its_windows_and_its_kernels() -> None:
    """A byte of each kernel for each of five domains and once for all, and two bits for every tap and pixel."""
    (conv,) = make_graph(LAYER)
    assert isinstance(conv, Conv)
    few, many, small = (
        operation_cost(conv, [(3, side, side)], (4, side, side), replace(CLAIMS, domains=5, kept={"layer": kept}))
        for side, kept in ((64, 4), (64, 12), (8, 4))
    )
    assert many.load_bytes - few.load_bytes == (12 - 4) * (5 + 1)
    assert few.load_bytes > 9 * 64 * 64 / 8
    seconds = few.load_seconds - small.load_seconds
    assert seconds == pytest.approx(2 * 9 * (lattice_pixels(conv, 64) - lattice_pixels(conv, 8)) * 5e-9)


def lattice_pixels(conv: Conv, side: int) -> int:
    _, rows, columns = lattice(conv, (3, side, side), (4, side, side))
    return rows * columns


def test_the_first_excess_is_named_with_what_is_allowed() -> None:
    allowed = allowed_cost(100_000_000)
    assert allowed == Cost(3.0, 600e6, 10.0, 1300e6)
    assert too_much(allowed, allowed) is None
    assert too_much(replace(allowed, load_seconds=3.001), allowed) == (
        "loading it would take up to 3.01 seconds; at most 3.0 are allowed for its size"
    )
    assert too_much(replace(allowed, load_bytes=700e6), allowed) == (
        "loading it would take up to 700.00 MB of memory; at most 600.0 are allowed for its size"
    )
    assert too_much(replace(allowed, image_seconds=11), allowed) == (
        "classifying one image would take up to 11.00 seconds; at most 10.0 are allowed for its size"
    )
    assert too_much(replace(allowed, image_bytes=1.4e9), allowed) == (
        "classifying one image would take up to 1,400.00 MB of memory; at most 1,300.0 are allowed for its size"
    )


def _resnet50() -> list[dict[str, Any]]:
    """Write the operations of a ResNet-50: a stem, then 3, 4, 6 and 3 bottlenecks."""
    point = {"kernel": (1, 1), "pads": (0, 0, 0, 0)}
    operations: list[dict[str, Any]] = [
        convolution("stem", (0,), (64, 3), kernel=(7, 7), stride=(2, 2), pads=(3, 3, 3, 3), activation="relu"),
        {"op": "pool", "inputs": (1,), "kind": "max", "kernel": (3, 3), "stride": (2, 2), "pads": (1, 1, 1, 1)},
    ]
    channels = 64
    for stage, blocks in enumerate((3, 4, 6, 3)):
        width = 64 * 2**stage
        for block in range(blocks):
            source, name = len(operations), f"{stage}.{block}"
            stride = (2, 2) if stage and not block else (1, 1)
            operations.append(convolution(f"{name}.1", (source,), (width, channels), **point))
            operations.append(convolution(f"{name}.2", (source + 1,), (width, width), stride=stride))
            if not block:
                shortcut = convolution(f"{name}.0", (source,), (4 * width, channels), **point, stride=stride)
                operations.append(shortcut)
            residual = source if block else source + 3
            operations.append(convolution(f"{name}.3", (source + 2, residual), (4 * width, width), **point))
            channels = 4 * width
    return [*operations, {"op": "mean", "inputs": (len(operations),)}]


@pytest.mark.parametrize("domains", [1, 10, 20])
def test_a_resnet50_costs_far_less_than_allowed(domains: int) -> None:
    graph = make_graph(*_resnet50())
    convs = [operation for operation in graph if isinstance(operation, Conv)]
    kept = {conv.layer: prod(conv.channels) for conv in convs}
    weights = sum(prod(conv.channels) * prod(conv.kernel) for conv in convs)
    assert weights == 23_454_912
    data_bytes = 4 * weights + domains * (sum(kept.values()) // 8 + 4 * 53_120 + 4 * 2048 * 100)
    arrays = domains * (len(convs) * 3 + 2)
    cost = _cost(graph, 224, data_bytes=data_bytes, arrays=arrays, domains=domains, classes=100, kept=kept, values=2000)
    allowed = allowed_cost(data_bytes)
    assert cost.load_seconds < allowed.load_seconds / 2
    assert cost.load_bytes < allowed.load_bytes / 1.5
    assert cost.image_seconds < allowed.image_seconds / 4
    assert cost.image_bytes < allowed.image_bytes / 2


def test_a_pool_that_rounds_up_needs_room_for_windows_beyond_the_image() -> None:
    pool = Pool(op="pool", inputs=(0,), kind="max", kernel=(2, 3), stride=(2, 2), pads=(0, 0, 0, 0), ceil=True)
    assert pool.shape([(3, 5, 6)]) == (3, 3, 3)
    rows, columns = (3 - 1) * 2 + 2, (3 - 1) * 2 + 3  # one more than the image has, in both directions
    assert _temporary_numbers(pool, [(3, 5, 6)], (3, 3, 3)) == 6 * 3 * 3 * 3 + 3 * rows * columns


def test_a_wide_convolution_needs_room_for_one_row_of_windows_with_their_biases() -> None:
    conv = Conv(**convolution("layer", (0,), (2, 300)))
    inputs, outputs = (300, 4, 200), (2, 4, 200)
    assert conv.shape([inputs]) == outputs
    padded = 300 * 6 * 202
    row = (300 + 1) * 9 * 200
    assert row > 2**18
    expected = 2 * 6 * prod(outputs) + 5 * prod(inputs) + 2 * padded + 2 * row
    assert _temporary_numbers(conv, [inputs], outputs) == expected
