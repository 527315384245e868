"""A bundle is lowered to steps, with conversions where they are needed."""

from prunus.bundle.bundle import Bundle
from prunus.integers.program import lower
from prunus.integers.steps import (
    DequantizeStep,
    FloatStep,
    IntegerHead,
    QuantizeStep,
)
from tests.makers.coded_bundles import integer_graph, random_coded_bundle
from tests.makers.graph_bundles import convolution, make_graph, random_bundle, varied_graph

ONE = {"kernel": (1, 1), "pads": (0, 0, 0, 0)}


def _with_integers(bundle: Bundle, integers: tuple[int, ...]) -> Bundle:
    """Return a bundle in which only these operations compute with integers."""
    manifest = bundle.manifest.with_graph(bundle.manifest.graph, integers)
    rows = [bundle.manifest.coded.index(value) for value in manifest.coded]
    arrays = {name: array[rows] if name.startswith("coding/") else array for name, array in bundle.arrays.items()}
    return Bundle(manifest, arrays)


def test_a_bundle_of_floats_becomes_its_graph() -> None:
    bundle = random_bundle(varied_graph(0), 12)
    program = lower(bundle)
    assert [step.operation for step in program.steps if isinstance(step, FloatStep)] == list(bundle.manifest.graph)
    assert program.shapes == bundle.manifest.shapes
    assert (program.codings, program.heads) == ({}, None)


def test_values_are_converted_once_and_only_where_a_reader_needs_it() -> None:
    graph = make_graph(
        convolution("a", [0], (4, 3)),
        convolution("b", [1], (4, 4)),
        convolution("c", [1], (4, 4)),
        {"op": "add", "inputs": (2, 3)},
        {"op": "mean", "inputs": (4,)},
    )
    drawn = random_coded_bundle(graph, 6)
    kinds = [type(step).__name__.removesuffix("Step") for step in lower(_with_integers(drawn, (1, 2))).steps]
    # float a -> codes for b and c -> floats of both for the sum
    assert kinds == [
        *("Float", "Quantize", "Convolution", "Convolution"),
        *("Dequantize", "Dequantize"),
        "Float",
        "Float",
    ]
    steps = lower(_with_integers(drawn, (0, 3))).steps
    kinds = [type(step).__name__.removesuffix("Step") for step in steps]
    assert kinds == [
        *("Quantize", "Convolution", "Dequantize", "Float", "Float"),
        *("Quantize", "Quantize", "Sum", "Dequantize", "Float"),
    ]
    assert [step.inputs for step in steps] == [(0,), (1,), (2,), (3,), (3,), (4,), (5,), (6, 7), (8,), (9,)]


def test_classifiers_compute_with_integers_only_if_the_features_are_coded() -> None:
    drawn = random_coded_bundle(make_graph(convolution("a", [0], (4, 3)), {"op": "mean", "inputs": (1,)}), 6)
    heads = lower(drawn).heads
    assert heads is not None
    assert all(isinstance(head, IntegerHead) for head in heads)
    program = lower(_with_integers(drawn, (0,)))
    assert program.heads is None
    assert isinstance(program.steps[-2], DequantizeStep)
    assert isinstance(program.steps[-1], FloatStep)


def test_a_sum_of_too_many_features_is_computed_with_floats() -> None:
    drawn = random_coded_bundle(make_graph(convolution("a", [0], (20, 3), **ONE)), 60)
    assert 20 * 60 * 60 * 255 * 127 >= 2**31
    program = lower(drawn)
    assert program.heads is None
    assert isinstance(program.steps[-1], DequantizeStep)


def test_a_graph_of_integers_has_no_conversion_but_that_of_the_image() -> None:
    steps = lower(random_coded_bundle(integer_graph(1), 12)).steps
    assert [type(step) for step in steps].count(QuantizeStep) == 1
    assert not any(isinstance(step, (DequantizeStep, FloatStep)) for step in steps)
