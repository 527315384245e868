"""A network returns each domain's tensors, and tensors that change nothing are dropped."""

import numpy as np

from prunus.graph.network import GraphNetwork, Node, scale_and_bias, without_neutral
from tests.makers.graph_bundles import convolution, make_graph


def _network() -> GraphNetwork:
    """One layer of 2 x 3 kernels for two domains."""
    conv, mean = make_graph(convolution("c", [0], (2, 3), stride=(2, 2)), {"op": "mean", "inputs": (1,)})
    weight = np.arange(1, 55, dtype=np.float32).reshape(2, 3, 3, 3)
    masks = np.array([[[1, 0, 1], [0, 0, 0]], [[1, 1, 1], [1, 1, 1]]], dtype=np.bool_)
    scale = np.array([[1.0, 2.0], [3.0, 4.0]])
    head = (np.ones((1, 2), np.float32), np.zeros(1, np.float32))
    return GraphNetwork((Node(conv, {"scale": scale}), Node(mean)), 8, {"c": weight}, {"c": masks}, (head, head))


def test_shapes_follow_from_the_graph() -> None:
    assert _network().shapes == [(3, 8, 8), (2, 4, 4), (2, 1, 1)]
    assert [operation.op for operation in _network().graph] == ["conv", "mean"]


def test_kernels_that_a_domain_does_not_use_are_zeros() -> None:
    network = _network()
    first, second = network.domain_tensors(0, 0), network.domain_tensors(1, 0)
    assert np.array_equal(second["weight"], network.weights["c"])
    assert np.array_equal(first["weight"][0, [0, 2]], network.weights["c"][0, [0, 2]])
    assert not first["weight"][0, 1].any()
    assert not first["weight"][1].any()
    assert first["scale"].tolist() == [1, 2]
    assert second["scale"].tolist() == [3, 4]
    assert network.domain_tensors(0, 1) == {}


def test_a_missing_scale_is_one_and_a_missing_bias_zero() -> None:
    scale, bias = scale_and_bias({}, (2, 3))
    assert scale.tolist() == [[1] * 3] * 2
    assert bias.tolist() == [[0] * 3] * 2
    scale, bias = scale_and_bias({"scale": np.full((2, 3), 5.0)}, (2, 3))
    assert scale.tolist() == [[5] * 3] * 2


def test_a_tensor_is_neutral_only_if_it_is_in_every_domain() -> None:
    ones, zeros = np.ones((2, 3)), np.zeros((2, 3))
    assert without_neutral({"scale": ones, "bias": zeros, "ones": zeros}) == {}
    assert list(without_neutral({"scale": zeros, "bias": ones})) == ["scale", "bias"]
    mixed = np.stack([np.ones(3), np.full(3, 2.0)])
    assert list(without_neutral({"scale": mixed})) == ["scale"]
