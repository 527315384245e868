"""8-bit steps give exactly the integers that the documentation defines."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from prunus.arrays import Array, Floats
from prunus.bundle.bundle import Bundle
from prunus.bundle.eight_bits.rules import EXACT_FLOATS
from prunus.bundle.file import read_bundle, write_bundle
from prunus.integers.compute import compute, exact_weight
from prunus.integers.program import lower
from prunus.runtime.numpy_engine import NumpyEngine, _dense_tensors, _tensors_of
from tests.makers.coded_bundles import integer_graph, random_coded_bundle
from tests.makers.graph_bundles import convolution, exact_logits, make_graph
from tests.makers.plain_integers import PlainNetwork


def _images(count: int, size: int, seed: int = 0) -> Floats:
    return np.random.default_rng(seed).standard_normal((count, 3, size, size)).astype(np.float32)


def assert_plain(bundle: Bundle, image: Floats) -> None:
    """Compare every value of every domain with the plain reference."""
    program = lower(bundle)
    assert len(program.steps) == len(bundle.manifest.graph) + 1  # that of the image
    for index, domain in enumerate(bundle.domains):
        plain, tensors = PlainNetwork(bundle, domain), _dense_tensors(bundle, domain)
        values: list[Array] = [image[None]]
        for step in program.steps:
            inputs = [values[value] for value in step.inputs]
            values.append(compute(step, inputs, _tensors_of(step, tensors), index))
        expected = plain.values(image)
        for number, (value, codes) in enumerate(zip(values[1:], expected, strict=True)):
            assert value.dtype == np.uint8
            assert np.array_equal(value[0], codes), f"value {number} of domain {domain}"
        assert np.array_equal(NumpyEngine(bundle).logits(image[None], domain)[0], plain.logits(expected[-1]))


@pytest.mark.parametrize("seed", range(12))
def test_every_operation_gives_the_integers_of_a_plain_reference(seed: int) -> None:
    bundle = random_coded_bundle(integer_graph(seed), 12, seed=seed)
    assert len(bundle.manifest.integers) == len(bundle.manifest.graph)
    (image,) = _images(1, 12, seed)
    assert_plain(bundle, image)


POOL = {"op": "pool", "inputs": (1,), "kernel": (3, 2), "stride": (2, 1), "pads": (1, 1, 0, 1)}


@pytest.mark.parametrize(
    "operations",
    [
        [POOL | {"kind": "max", "ceil": True}],
        [POOL | {"kind": "mean"}],
        [POOL | {"kind": "mean", "ceil": True, "count_pads": True}],
        [{"op": "add", "inputs": (1, 1), "activation": "relu"}],
        [{"op": "mul", "inputs": (1, 1), "activation": "relu6"}],
        [convolution("b", [1, 1], (8, 8), activation="relu6")],
        [convolution("b", [1], (8, 4), groups=2, stride=(2, 3), dilation=(1, 2), pads=(2, 0, 1, 3))],
    ],
    ids=["max", "mean", "counted pads", "sum", "product", "residual", "windows"],
)
def test_windows_limits_and_residuals_are_those_of_the_plain_reference(operations: list[dict[str, Any]]) -> None:
    graph = make_graph(convolution("a", [0], (8, 3), activation="relu"), *operations)
    for seed in range(6):
        bundle = random_coded_bundle(graph, 7, seed=seed)
        (image,) = _images(1, 7, seed)
        assert_plain(bundle, image)


@pytest.mark.parametrize("seed", range(4))
def test_only_a_part_in_integers_stays_near_the_floats(seed: int, tmp_path: Path) -> None:
    drawn = random_coded_bundle(integer_graph(seed), 12, 0.4, seed)
    write_bundle(tmp_path / "m.prunus", drawn, "int8")
    bundle, images = read_bundle(tmp_path / "m.prunus"), _images(2, 12)
    logits = NumpyEngine(bundle).logits(images, "a")
    assert logits.dtype == np.float32
    without = Bundle(bundle.manifest.with_graph(bundle.manifest.graph, ()), bundle.arrays)
    floats = NumpyEngine(without).logits(images, "a")
    np.testing.assert_allclose(floats, exact_logits(without, images, "a"), rtol=1e-4, atol=1e-4)
    assert not np.array_equal(logits, floats)


def test_sums_beyond_the_whole_numbers_of_float32_are_computed_in_double_precision() -> None:
    small, large = np.full((1, 518, 1, 1), 127, np.float32), np.full((1, 519, 1, 1), 127, np.float32)
    assert 518 * 127 * 255 <= EXACT_FLOATS < 519 * 127 * 255
    assert exact_weight(small).dtype == np.float32
    assert exact_weight(large).dtype == np.float64


def test_a_wide_layer_of_extreme_codes_is_summed_exactly() -> None:
    one = {"kernel": (1, 1), "pads": (0, 0, 0, 0)}
    graph = make_graph(convolution("a", [0], (700, 3), **one), convolution("b", [1], (2, 700), **one))
    bundle = random_coded_bundle(graph, 2, seed=1, density=1.0)
    bundle.arrays["kernels/b"][:] = np.random.default_rng(0).choice([126, 127], (1400, 1, 1))
    for domain in bundle.domains:
        zeros = bundle.arrays[f"coding/{domain}/zero"]
        zeros[:2] = 0
        bundle.arrays[f"coding/{domain}/scale"][2] = 1e4
    assert_plain(bundle, _images(1, 2)[0] + 3)
