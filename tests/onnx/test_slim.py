"""One domain's network loses what that domain does not need, and none of its answers."""

import numpy as np
import pytest
import torch

from prunus.arrays import Floats, Values
from prunus.backbone.zoo import load_backbone
from prunus.bundle.bundle import Bundle
from prunus.bundle.manifest import DomainEntry
from prunus.config import BackboneChoice
from prunus.lowering.pack import pack
from prunus.methods.table import adapt
from prunus.onnx.network import DomainNetwork, domain_network
from prunus.onnx.slim import slim
from prunus.runtime.numpy_operations import compute
from tests.makers.graph_bundles import convolution, make_graph, random_bundle, varied_graph


def _logits(network: DomainNetwork, images: Floats) -> Values:
    values: list[Values] = [images]
    for number, operation in enumerate(network.graph):
        inputs = [values[value] for value in operation.inputs]
        values.append(compute(operation, inputs, network.tensors[number], network.shapes[number + 1][1:]))
    return values[-1].reshape(len(images), -1) @ network.head_weight.T + network.head_bias


def _without_ones(bundle: Bundle) -> Bundle:
    """Leave out kernels over ones, which make outputs vary that nothing else feeds."""
    return Bundle(bundle.manifest, {k: v for k, v in bundle.arrays.items() if not k.endswith(".ones")})


@pytest.mark.parametrize("density", [0.0, 0.02, 0.1, 0.5])
def test_answers_stay_whatever_is_left_out(density: float) -> None:
    removed = 0
    for seed in range(12):
        bundle = random_bundle(varied_graph(seed), 12, density=density, seed=seed)
        images = np.random.default_rng(seed).standard_normal((2, 3, 12, 12)).astype(np.float32)
        for each in (bundle, _without_ones(bundle)):
            whole = domain_network(each, "a")
            small = slim(whole)
            np.testing.assert_allclose(_logits(small, images), _logits(whole, images), rtol=2e-5, atol=2e-5)
            removed += sum(shape[0] for shape in whole.shapes) - sum(shape[0] for shape in small.shapes)
    assert removed > 0 or density == 0.5


CHAIN = make_graph(
    convolution("first", [0], (4, 3), activation="relu"),
    convolution("second", [1], (3, 4)),
    {"op": "mean", "inputs": (2,)},
)


def _chain() -> DomainNetwork:
    network = domain_network(random_bundle(CHAIN, 6, density=1.0), "a")
    for tensors in network.tensors:
        tensors.pop("ones", None)
    return network


def test_a_channel_that_nothing_reads_goes_with_its_kernels() -> None:
    network = _chain()
    network.tensors[1]["weight"][:, 2] = 0
    small = slim(network)
    assert [shape[0] for shape in small.shapes] == [3, 3, 3, 3]
    np.testing.assert_array_equal(small.tensors[0]["weight"], network.tensors[0]["weight"][[0, 1, 3]])
    np.testing.assert_array_equal(small.tensors[1]["weight"], network.tensors[1]["weight"][:, [0, 1, 3]])
    assert "ones" not in small.tensors[1]


def test_a_constant_lives_on_in_the_kernels_over_ones_of_what_reads_it() -> None:
    network = _chain()
    network.tensors[0]["weight"][1] = 0
    network.tensors[0]["bias"] = np.array([0.0, 2.0, 0.0, 0.0], np.float32)
    small = slim(network)
    assert small.shapes[1][0] == 3
    np.testing.assert_allclose(small.tensors[1]["ones"], 2 * network.tensors[1]["weight"][:, 1], rtol=1e-6)


def test_a_constant_of_a_convolution_without_padding_lives_on_in_its_bias() -> None:
    graph = make_graph(CHAIN[0].model_dump(), CHAIN[1].model_dump() | {"pads": (0, 0, 0, 0)}, CHAIN[2].model_dump())
    whole = domain_network(random_bundle(graph, 6, density=1.0), "a")
    whole.tensors[0] = {"weight": whole.tensors[0]["weight"], "bias": np.array([0.0, 2.0, 0.0, 0.0], np.float32)}
    whole.tensors[0]["weight"][1] = 0
    whole.tensors[1] = {"weight": whole.tensors[1]["weight"], "scale": np.array([1.0, 2.0, 3.0], np.float32)}
    expected = 2 * whole.tensors[1]["weight"][:, 1].sum(axis=(1, 2)) * [1, 2, 3]
    np.testing.assert_allclose(slim(whole).tensors[1]["bias"], expected, rtol=1e-5)


def test_a_constant_feature_lives_on_in_the_classifiers_bias() -> None:
    network = _chain()
    network.tensors[1] = {"weight": network.tensors[1]["weight"], "bias": np.array([0.0, 0.0, 3.0], np.float32)}
    network.tensors[1]["weight"][2] = 0
    small = slim(network)
    assert small.shapes[-1] == (2, 1, 1)
    np.testing.assert_allclose(small.head_bias, network.head_bias + 3 * network.head_weight[:, 2], rtol=1e-6)


def test_the_given_network_is_left_alone() -> None:
    network = domain_network(random_bundle(varied_graph(0), 12, density=0.02), "a")
    before = [{role: tensor.copy() for role, tensor in tensors.items()} for tensors in network.tensors]
    slim(network)
    for tensors, others in zip(network.tensors, before, strict=True):
        assert all(np.array_equal(tensor, others[role]) for role, tensor in tensors.items())


def _packed(domains: tuple[str, ...]) -> Bundle:
    """Pack a network whose first domain uses half of the kernels, and whose others use all."""
    backbone = load_backbone(BackboneChoice(name="wrn14_2"))
    net = adapt(backbone, dict.fromkeys(domains, ("x", "y")), "union")
    assert net.switches is not None
    generator = torch.Generator().manual_seed(0)
    with torch.no_grad():
        scores = net.switches.scores_DM[:1]
        scores.copy_(torch.rand(scores.shape, generator=generator) - 0.4)
        for view in net.switches.layout.views(scores).values():
            view[:, torch.rand(view.shape[1], generator=generator) < 0.3] = -1.0
    entry = DomainEntry(classes=("x", "y"), preprocess=backbone.preprocess)
    return pack(net, backbone, dict.fromkeys(domains, entry), {})


def test_a_domain_of_several_becomes_as_small_as_one_packed_alone() -> None:
    several, alone = _packed(("a", "b")), _packed(("a",))
    assert slim(domain_network(several, "a")).shapes == alone.manifest.shapes
    assert several.manifest.shapes != alone.manifest.shapes
