"""A network becomes a bundle and comes back with the same numbers."""

from dataclasses import replace

import numpy as np
import pytest

from prunus.bundle.packing import from_bundle, to_bundle
from prunus.graph.network import Node
from tests.makers.graph_bundles import random_bundle, varied_graph


@pytest.mark.parametrize("seed", range(4))
def test_a_network_comes_back_from_a_bundle(seed: int) -> None:
    bundle = random_bundle(varied_graph(seed), 12, seed=seed)
    network = from_bundle(bundle, bundle.domains)
    again = to_bundle(network, bundle.manifest)
    assert again.manifest == bundle.manifest
    assert again.arrays.keys() == bundle.arrays.keys()
    assert all(np.array_equal(again.arrays[name], array) for name, array in bundle.arrays.items())


def test_some_domains_come_back_in_the_order_asked_for() -> None:
    bundle = random_bundle(varied_graph(0), 12, ("a", "b", "c"))
    network = from_bundle(bundle, ["c", "a"])
    assert np.array_equal(network.masks["stem"], np.stack([bundle.mask("c", "stem"), bundle.mask("a", "stem")]))
    assert np.array_equal(network.heads[1][0], bundle.head("a")[0])
    assert np.array_equal(network.weights["stem"], bundle.weight("stem", bundle.union("stem")))


def test_a_tensor_that_is_the_same_in_all_domains_is_stored_once() -> None:
    bundle = random_bundle(varied_graph(0), 12)
    network = from_bundle(bundle, bundle.domains)
    first, *others = network.nodes
    tensors = {"scale": np.full((2, 16), 3.0), "bias": np.arange(32.0).reshape(2, 16)}
    arrays = to_bundle(replace(network, nodes=(Node(first.operation, tensors), *others)), bundle.manifest).arrays
    names = [name for name in arrays if name.endswith(("/0.scale", "/0.bias", "/0.ones"))]
    assert sorted(names) == ["norm/a/0.bias", "norm/b/0.bias", "shared/0.scale"]
    assert arrays["norm/b/0.bias"].tolist() == list(range(16, 32))
