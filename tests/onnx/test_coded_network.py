"""The numbers of a coded network."""

import numpy as np
import pytest

from prunus.bundle.bundle import Bundle
from prunus.onnx.coded_network import common_network, domain_network
from tests.makers.coded_bundles import integer_graph, random_coded_bundle
from tests.makers.graph_bundles import convolution, make_graph

GRAPH = make_graph(
    convolution("a", [0], (4, 3), activation="relu6"),
    convolution("b", [1, 1], (4, 4), activation="relu"),
    {"op": "mean", "inputs": (2,)},
)


def _bundle() -> Bundle:
    bundle = random_coded_bundle(GRAPH, 6, density=1.0)
    codings = {f"coding/{domain}/scale": np.array([0.1, 0.05, 0.2, 0.1], np.float32) for domain in bundle.domains}
    zeros = {f"coding/{domain}/zero": np.array([128, 0, 10, 0], np.uint8) for domain in bundle.domains}
    return Bundle(bundle.manifest, bundle.arrays | codings | zeros)


def test_limits_are_those_of_the_activation() -> None:
    coded = common_network(_bundle())
    assert [coded.limits(number, operation) for number, operation in enumerate(GRAPH)] == [
        [(0, 120)] * 2,  # 6 / 0.05
        [(10, 255)] * 2,
        [(0, 255)] * 2,
    ]


def test_classifiers_are_padded_with_impossible_classes() -> None:
    bundle = _bundle()
    entries = bundle.manifest.domains
    fewer = entries["a"].model_copy(update={"classes": ("x",)})
    manifest = bundle.manifest.model_copy(update={"domains": entries | {"a": fewer}})
    cut = {f"head/a/{role}": bundle.arrays[f"head/a/{role}"][:1] for role in ("weight", "scale", "bias")}
    coded = common_network(Bundle(manifest, bundle.arrays | cut))
    codes, scales, biases = coded.heads()
    assert [len(rows) for rows in (*codes, *scales, *biases)] == [3] * 6
    assert not codes[0][1:].any()
    np.testing.assert_array_equal(codes[1], bundle.arrays["head/b/weight"])
    norm = coded.head_norms()[0]
    assert (norm.biases * norm.units)[1:] == pytest.approx([-1e9, -1e9], rel=1e-5)


def test_scales_are_those_of_the_channels_that_are_left() -> None:
    bundle = random_coded_bundle(integer_graph(1), 12, density=0.1, seed=1)
    coded, channels = domain_network(bundle, "a")
    assert any(len(outputs) < len(bundle.arrays[f"scale/{layer}"]) for layer, (outputs, _) in channels.items())
    for layer, (outputs, _) in channels.items():
        np.testing.assert_array_equal(coded.scales[layer], bundle.arrays[f"scale/{layer}"][outputs])
