"""Activations that need a table become operations of their own; the network computes the same."""

import numpy as np
import pytest

from prunus.bundle.bundle import Bundle
from prunus.bundle.eight_bits.splitting import Origin, planned, possible_integers, split_activations
from prunus.bundle.file import bundle_size
from prunus.graph.operations import Activated
from prunus.runtime.numpy_engine import NumpyEngine
from tests.makers.coded_bundles import random_coded_bundle, without_ones
from tests.makers.graph_bundles import convolution, make_graph, random_bundle, varied_graph


@pytest.mark.parametrize("seed", range(8))
def test_a_split_network_computes_the_same(seed: int) -> None:
    bundle = random_bundle(varied_graph(seed), 12, seed=seed)
    split = planned(bundle)
    assert bundle.arrays.keys() != split.arrays.keys() or len(split.manifest.graph) == len(bundle.manifest.graph)
    floats = Bundle(split.manifest.with_graph(split.manifest.graph, ()), split.arrays)
    images = np.random.default_rng(seed).standard_normal((2, 3, 12, 12)).astype(np.float32)
    for domain in bundle.domains:
        assert np.array_equal(NumpyEngine(floats).logits(images, domain), NumpyEngine(bundle).logits(images, domain))


def test_only_chosen_operations_are_split() -> None:
    graph = make_graph(
        convolution("a", [0], (4, 3), activation="silu"),
        convolution("b", [1], (4, 4), activation="leaky_relu", slope=0.2),
        {"op": "add", "inputs": (1, 2), "activation": "relu"},
    )
    bundle = without_ones(random_bundle(graph, 6))
    assert possible_integers(bundle) == (0, 1, 2)
    split = split_activations(bundle, (1, 2))
    assert split.origins == (Origin(0), Origin(1), Origin(1, is_activation=True), Origin(2))
    assert split.bundle.manifest.integers == (1, 2, 3)
    operations = split.bundle.manifest.graph
    assert [operation.inputs for operation in operations] == [(0,), (1,), (2,), (1, 3)]
    names = [(operation.activation, operation.slope) for operation in operations if isinstance(operation, Activated)]
    assert names == [("silu", 0), ("none", 0), ("leaky_relu", 0.2), ("relu", 0)]


@pytest.mark.parametrize("seed", range(12))
def test_no_8_bit_file_is_larger_than_planned_unless_layers_stay_wide(seed: int) -> None:
    graph = varied_graph(seed)
    floats = random_bundle(graph, 12, seed=seed)
    drawn = random_coded_bundle(graph, 12, 0.5, seed)
    narrow = Bundle(drawn.manifest.with_graph(drawn.manifest.graph, drawn.manifest.integers), drawn.arrays)
    assert bundle_size(narrow, "int8") <= bundle_size(floats, "int8") < bundle_size(floats, "float16")
