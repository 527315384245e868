"""The numbers of every value are counted, as the network computes them."""

import numpy as np
import pytest

from prunus.bundle.packing import from_bundle
from prunus.graph.compute import compute
from prunus.quantizing.images import Pictures
from prunus.quantizing.observing import observe
from prunus.runtime.numpy_engine import _dense_tensors
from tests.makers.graph_bundles import random_bundle, varied_graph


def test_the_ends_of_every_value_are_those_of_the_numpy_engine() -> None:
    bundle = random_bundle(varied_graph(1), 12)
    pixels = np.random.default_rng(0).integers(0, 256, (20, 3, 12, 12)).astype(np.uint8)
    pictures = Pictures(pixels, bundle.manifest.domains["b"].preprocess)
    histograms = observe(from_bundle(bundle, ["a", "b"]), 1, pictures)
    values = [next(pictures.prepared(20))]
    tensors = _dense_tensors(bundle, "b")
    for number, operation in enumerate(bundle.manifest.graph):
        inputs = [values[value] for value in operation.inputs]
        values.append(compute(operation, inputs, tensors[number], bundle.manifest.shapes[number + 1][1:]))
    assert len(histograms) == len(values)
    for histogram, value in zip(histograms, values, strict=True):
        assert histogram.low == pytest.approx(min(float(value.min()), 0), rel=1e-4, abs=1e-4)
        assert histogram.high == pytest.approx(max(float(value.max()), 0), rel=1e-4, abs=1e-4)
        assert histogram.counts.sum() > 0
