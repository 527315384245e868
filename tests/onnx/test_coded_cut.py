"""Channels that a domain does not need are removed without changing a code."""

import numpy as np
import pytest

from prunus.bundle.bundle import Bundle
from prunus.bundle.packing import from_bundle
from prunus.graph.channels import ChannelFlow
from prunus.integers.coding import value_codings
from prunus.onnx.coded_cut import CodedFlow
from prunus.onnx.coded_network import domain_network
from prunus.runtime.numpy_engine import NumpyEngine
from tests.makers.coded_bundles import integer_graph, random_coded_bundle
from tests.makers.coded_networks import coded_values
from tests.makers.graph_bundles import convolution, make_graph


@pytest.mark.parametrize("share", [1.0, 0.6])
@pytest.mark.parametrize("seed", range(6))
def test_a_cut_network_answers_as_the_file_does(seed: int, share: float) -> None:
    bundle = random_coded_bundle(integer_graph(seed), 12, share, seed, density=0.15)
    images = np.random.default_rng(0).standard_normal((2, 3, 12, 12)).astype(np.float32)
    removed = 0
    for domain in bundle.domains:
        coded, _ = domain_network(bundle, domain)
        expected = NumpyEngine(bundle).logits(images, domain)
        found = coded_values(coded, 0, images)["logits"].astype(np.float32)
        np.testing.assert_allclose(found, expected, atol=1e-4 * float(np.abs(expected).max()))
        removed += sum(was[0] - now[0] for was, now in zip(bundle.manifest.shapes, coded.network.shapes, strict=True))
    assert removed > 5


def _one_constant(**second: object) -> Bundle:
    """Two layers; the first makes channel 0 of biases alone, of value 0.26, with codes of 0.1."""
    graph = make_graph(
        convolution("first", [0], (3, 3), activation="relu"),
        convolution("second", [1], (2, 3), kernel=(1, 1)) | second,
        {"op": "mean", "inputs": (2,)},
    )
    bundle = random_coded_bundle(graph, 6, density=1.0)
    codes = bundle.arrays["kernels/first"].copy()
    codes[bundle.kept_outputs("first") == 0] = 0
    others = {name: array for name, array in bundle.arrays.items() if not name.startswith(("norm/", "shared/"))}
    codings = {f"coding/{domain}/scale": np.full(4, 0.1, np.float32) for domain in bundle.domains}
    zeros = {f"coding/{domain}/zero": np.zeros(4, np.uint8) for domain in bundle.domains}
    biases = {"shared/0.bias": np.array([0.26, 0, 0], np.float32)}
    return Bundle(bundle.manifest, others | {"kernels/first": codes} | codings | zeros | biases)


def _flow(bundle: Bundle) -> CodedFlow:
    return CodedFlow(from_bundle(bundle, bundle.domains), bundle.manifest.integers, value_codings(bundle))


def test_a_constant_is_what_its_code_stands_for() -> None:
    bundle = _one_constant(pads=(0, 0, 0, 0))
    flow = _flow(bundle)
    assert flow.kept(1).tolist() == [1, 2]
    assert flow.constants(1)[0, 0] == pytest.approx(0.3)
    assert ChannelFlow(from_bundle(bundle, bundle.domains)).constants(1)[0, 0] == pytest.approx(0.26)


def test_a_constant_before_padding_stays() -> None:
    bundle = _one_constant(pads=(1, 1, 1, 1))
    assert _flow(bundle).kept(1).tolist() == [0, 1, 2]
    coded, _ = domain_network(bundle, "a")
    assert all("ones" not in node.tensors for node in coded.network.nodes)


def test_a_float_that_becomes_a_code_stays() -> None:
    bundle = _one_constant(pads=(0, 0, 0, 0))
    manifest = bundle.manifest.with_graph(bundle.manifest.graph, (1, 2))  # the first layer computes with floats
    codings = {name: array[1:] for name, array in bundle.arrays.items() if name.startswith("coding/")}
    assert _flow(Bundle(manifest, bundle.arrays | codings)).kept(1).tolist() == [0, 1, 2]
