"""A bundle in float32 has the numbers of the file, and no integer operations."""

import numpy as np
import pytest

from prunus.arrays import DType
from prunus.bundle.bundle import Bundle
from prunus.bundle.dtypes import encode
from prunus.onnx.floats import as_float32
from prunus.runtime.numpy_engine import NumpyEngine
from tests.makers.coded_bundles import integer_graph, random_coded_bundle
from tests.makers.graph_bundles import random_bundle

IMAGES = np.random.default_rng(0).standard_normal((2, 3, 12, 12)).astype(np.float32)


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
def test_numbers_of_other_types_are_widened(dtype: DType) -> None:
    bundle = random_bundle(integer_graph(0), 12)
    stored = {
        name: encode(array, dtype) if name.startswith(("kernels/", "head/")) else array
        for name, array in bundle.arrays.items()
    }
    _assert_floats_with_the_same_logits(Bundle(bundle.manifest, stored))


def test_codes_become_the_numbers_that_they_stand_for() -> None:
    _assert_floats_with_the_same_logits(random_coded_bundle(integer_graph(0), 12, share=0.0))
    coded = random_coded_bundle(integer_graph(0), 12)
    assert coded.manifest.integers
    floats = as_float32(coded)
    assert (floats.dtype, floats.manifest.integers) == ("float32", ())
    for layer in coded.manifest.convs:
        np.testing.assert_array_equal(floats.kernels(layer), coded.kernels(layer))


def _assert_floats_with_the_same_logits(bundle: Bundle) -> None:
    floats = as_float32(bundle)
    assert {array.dtype.name for name, array in floats.arrays.items() if name.startswith(("kernels/", "head/"))} == {
        "float32"
    }
    for domain in bundle.domains:
        expected = NumpyEngine(bundle).logits(IMAGES, domain)
        np.testing.assert_allclose(NumpyEngine(floats).logits(IMAGES, domain), expected, rtol=1e-5, atol=1e-5)
