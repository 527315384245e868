"""What can compute with 8-bit integers: sums must fit into 32 bits, and activations must be limits or tables."""

from typing import Any

import pytest

from prunus.bundle.eight_bits.rules import can_be_integer, can_be_split, coded_values, shared_codings, sum_fits
from prunus.graph.operations import OPERATIONS, parse_operation
from tests.makers.graph_bundles import convolution, make_graph
from tests.makers.token_networks import attention

LARGE = {"op": "pool", "inputs": (0,), "kind": "mean", "kernel": (3000, 3000), "stride": (1, 1)}


@pytest.mark.parametrize(
    ("operation", "roles", "expected"),
    [
        (convolution("a", [0], (4, 3)), (), True),
        (convolution("a", [0], (4, 3), activation="relu6"), ("scale", "bias"), True),
        (convolution("a", [0], (4, 3)), ("ones",), False),
        (convolution("a", [0], (4, 3), activation="silu"), (), False),
        (convolution("a", [0], (4, 7367)), (), True),
        (convolution("a", [0], (4, 7368)), (), False),
        ({"op": "affine", "inputs": (0,), "activation": "gelu"}, (), True),
        ({"op": "affine", "inputs": (0,), "activation": "gelu"}, ("bias",), False),
        ({"op": "affine", "inputs": (0,), "activation": "relu"}, ("bias",), True),
        ({"op": "add", "inputs": (0, 0), "activation": "tanh"}, (), False),
        ({"op": "mul", "inputs": (0, 0), "activation": "relu"}, (), True),
        (LARGE, (), False),
        (LARGE | {"kind": "max"}, (), True),
        ({"op": "layer_norm", "inputs": (0,), "eps": 1e-6}, (), False),
    ],
)
def test_an_operation_can_compute_with_integers_if_nothing_overflows(
    operation: dict[str, Any], roles: tuple[str, ...], expected: bool
) -> None:
    assert can_be_integer(parse_operation(operation), roles, [(3, 16, 16)]) is expected


def test_a_mean_of_too_many_pixels_needs_floats() -> None:
    mean = parse_operation({"op": "mean", "inputs": (0,)})
    assert can_be_integer(mean, (), [(1, 2900, 2900)])
    assert not can_be_integer(mean, (), [(1, 2902, 2902)])


def test_attention_needs_floats_if_its_sums_are_too_large() -> None:
    def is_possible(dim: int, keys: tuple[int, int]) -> bool:
        operation = parse_operation(attention((0, 1, 1), heads=1, dims=(dim, 4), first=(0, 0, 0), step=(0, 0, 0)))
        return can_be_integer(operation, (), [(600, 1, 9), (600, *keys), (600, *keys)])

    assert is_possible(514, (1, 33025))
    assert not is_possible(515, (1, 9))
    assert not is_possible(4, (127, 261))
    assert 514 * 255 * 128 <= 2**24 < 515 * 255 * 128
    assert 33025 * 255**2 < 2**31 <= 127 * 261 * 255**2


def test_activations_that_need_a_table_can_be_split_off() -> None:
    silu = convolution("a", [0], (4, 3), activation="silu")
    assert can_be_split(parse_operation(silu), ("scale",), [(3, 8, 8)])
    assert not can_be_split(parse_operation(silu), ("ones",), [(3, 8, 8)])
    assert not can_be_split(parse_operation(silu | {"activation": "relu"}), (), [(3, 8, 8)])
    affine = parse_operation({"op": "affine", "inputs": (0,), "activation": "silu"})
    assert can_be_split(affine, ("scale",), [(3, 8, 8)])
    assert not can_be_split(affine, (), [(3, 8, 8)])
    assert not any(can_be_split(parse_operation(LARGE), (), [(3, 8, 8)]) for _ in OPERATIONS)


def test_the_largest_sum_is_below_two_to_the_31() -> None:
    assert sum_fits(66311)
    assert 66311 * 255 * 127 < 2**31 <= 66312 * 255 * 127
    assert not sum_fits(66312)


def test_values_have_a_coding_if_an_integer_operation_reads_or_makes_them() -> None:
    graph = make_graph(
        convolution("a", [0], (4, 3)),
        {"op": "append_zeros", "inputs": (1,), "count": 2},
        {"op": "pool", "inputs": (2,), "kind": "max", "kernel": (2, 2), "stride": (2, 2)},
        {"op": "pool", "inputs": (2,), "kind": "mean", "kernel": (2, 2), "stride": (2, 2)},
        {"op": "add", "inputs": (3, 4)},
    )
    assert coded_values(graph, (1, 3)) == (1, 2, 4)
    assert coded_values(graph, ()) == ()
    assert shared_codings(graph, (1, 2, 3)) == [(1, 2), (2, 3)]
