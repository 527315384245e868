"""A bundle is lowered to steps: conversions where they are needed, factors of every domain."""

import numpy as np
import pytest

from prunus.bundle.bundle import Bundle
from prunus.errors import BundleError
from prunus.graph.operations import OPERATIONS
from prunus.integers.program import INTEGER, lower
from prunus.integers.steps import (
    AffineStep,
    ConvolutionStep,
    DequantizeStep,
    FloatStep,
    IntegerHead,
    JoinStep,
    QuantizeStep,
    TableStep,
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


def test_every_operation_has_an_integer_step_except_layer_norms_and_moves_of_tokens() -> None:
    assert set(INTEGER) == set(OPERATIONS) - {"layer_norm", "affine_map", "join_pixels", "rearrange"}


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


def test_the_correction_of_the_zero_depends_on_the_kernels_that_a_domain_uses() -> None:
    bundle = random_coded_bundle(make_graph(convolution("a", [0], (3, 3)), convolution("b", [1], (5, 3), **ONE)), 6)
    for step in lower(bundle).steps:
        if not isinstance(step, ConvolutionStep):
            continue
        for index, domain in enumerate(bundle.domains):
            codes = bundle.weight_codes(step.conv.layer, bundle.mask(domain, step.conv.layer))
            scale, zero = (bundle.arrays[f"coding/{domain}/{role}"].astype(np.float64) for role in ("scale", "zero"))
            s_x, z_x, s_y, z_y = scale[step.number], zero[step.number], scale[step.number + 1], zero[step.number + 1]
            gain, bias = (bundle.tensor(domain, step.number, role) for role in ("scale", "bias"))
            real = bundle.arrays[f"scale/{step.conv.layer}"].astype(np.float64) * s_x * (1 if gain is None else gain)
            offset = (0 if bias is None else bias) - real * z_x * codes.sum(axis=(1, 2, 3))
            np.testing.assert_allclose(step.multipliers[index], real / s_y, rtol=1e-6)
            np.testing.assert_allclose(step.offsets[index], offset / s_y + z_y, rtol=1e-5, atol=1e-4)


def test_an_activation_is_a_limit_or_a_table() -> None:
    graph = make_graph(
        convolution("a", [0], (4, 3), activation="relu6"),
        {"op": "affine", "inputs": (1,), "activation": "relu"},
        {"op": "affine", "inputs": (2,), "activation": "silu"},
    )
    bundle = random_coded_bundle(graph, 6)
    conv, affine = (
        next(s for s in lower(bundle).steps if isinstance(s, kind)) for kind in (ConvolutionStep, AffineStep)
    )
    for index, domain in enumerate(bundle.domains):
        scale, zero = (bundle.arrays[f"coding/{domain}/{role}"] for role in ("scale", "zero"))
        assert conv.lows[index] == zero[1]
        assert conv.highs[index] == min(255, int(zero[1]) + round(6 / float(scale[1])))
        assert (affine.lows[index], affine.highs[index]) == (zero[2], 255)
    (table,) = (step for step in lower(bundle).steps if isinstance(step, TableStep))
    assert table.tables.shape == (2, 256)


def test_channels_are_joined_without_a_table_where_codings_are_the_same() -> None:
    graph = make_graph(
        convolution("a", [0], (4, 3)), convolution("b", [0], (4, 3)), {"op": "cat", "inputs": (1, 2)}, *()
    )
    bundle = random_coded_bundle(graph, 6)
    for role in ("scale", "zero"):
        row = bundle.arrays[f"coding/a/{role}"]
        row[3] = row[1]
    (join,) = (step for step in lower(bundle).steps if isinstance(step, JoinStep))
    (first, second), (third, fourth) = join.tables
    assert first is None
    assert second is not None
    assert third is not None
    assert fourth is not None


@pytest.mark.parametrize("name", ["norm/a/0.scale", "norm/a/0.bias"])
def test_factors_that_a_sum_could_overflow_with_are_refused(name: str) -> None:
    bundle = random_coded_bundle(make_graph(convolution("a", [0], (4, 3))), 6)
    role = name.rpartition("/")[2]
    arrays = {key: array for key, array in bundle.arrays.items() if not key.endswith(f"/{role}")}
    arrays |= {f"norm/{domain}/{role}": np.full(4, 3e38, np.float32) for domain in bundle.domains}
    with pytest.raises(BundleError, match="the factors of its 8-bit operation 0 are too large"):
        lower(Bundle(bundle.manifest, arrays))


def test_an_activation_that_overflows_gives_a_table_all_the_same() -> None:
    graph = make_graph(
        convolution("a", [0], (4, 3)), {"op": "affine", "inputs": (1,), "activation": "leaky_relu", "slope": 1e308}
    )
    bundle = random_coded_bundle(graph, 6)
    bundle.arrays["coding/a/scale"][:] = 2**40
    bundle.arrays["coding/a/zero"][:] = 100
    (table,) = (step for step in lower(bundle).steps if isinstance(step, TableStep))
    assert table.tables[0].tolist() == [0] * 100 + list(range(100, 256))


def test_a_graph_of_integers_has_no_conversion_but_that_of_the_image() -> None:
    steps = lower(random_coded_bundle(integer_graph(1), 12)).steps
    assert [type(step) for step in steps].count(QuantizeStep) == 1
    assert not any(isinstance(step, (DequantizeStep, FloatStep)) for step in steps)
