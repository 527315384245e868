"""A network loses the channels that no domain needs, and none of its answers."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from prunus.backbone.zoo import load_backbone
from prunus.bundle.bundle import Bundle
from prunus.bundle.manifest import DomainEntry
from prunus.bundle.packing import from_bundle
from prunus.config import BackboneChoice
from prunus.graph.cut import cut
from prunus.graph.network import GraphNetwork, Node
from prunus.graph.operations import Conv
from prunus.lowering.build import build_graph
from prunus.lowering.pack import pack
from prunus.masks.network import MultiDomainNet
from prunus.methods.table import METHODS, adapt
from tests.lowering.test_build import assert_same
from tests.makers.graph_bundles import convolution, make_graph, random_bundle, torch_logits, varied_graph
from tests.makers.masked_networks import MODES, TWO_DOMAINS, masked_network, tiny_net, zoo_backbone

NETWORKS = (
    "wrn14_2",
    "wrn28_4",
    "timm/resnet50",
    "timm/mobilenetv2_100",
    "timm/mobilenetv3_large_100",
    "timm/efficientnet_lite0",
    "timm/regnety_002",
    "timm/densenet121",
    "timm/convnext_atto",
)


def _num_weights(network: GraphNetwork) -> int:
    return sum(weight.size for weight in network.weights.values())


def _without_ones(bundle: Bundle) -> Bundle:
    """Drop kernels over ones: they make outputs vary that nothing else feeds."""
    return Bundle(bundle.manifest, {k: v for k, v in bundle.arrays.items() if not k.endswith(".ones")})


@pytest.mark.parametrize("density", [0.0, 0.02, 0.1, 0.5])
@pytest.mark.parametrize("domains", [("a",), ("a", "b", "c")])
def test_answers_stay_whatever_is_removed(density: float, domains: tuple[str, ...]) -> None:
    removed = 0
    for seed in range(8):
        bundle = random_bundle(varied_graph(seed), 12, domains, density=density, seed=seed)
        images = np.random.default_rng(seed).standard_normal((2, 3, 12, 12)).astype(np.float32)
        for variant in (bundle, _without_ones(bundle)):
            whole = from_bundle(variant, domains)
            small = cut(whole)
            for domain in range(len(domains)):
                expected = torch_logits(whole, images, domain)
                np.testing.assert_allclose(torch_logits(small, images, domain), expected, rtol=2e-5, atol=2e-5)
            removed += sum(shape[0] for shape in whole.shapes) - sum(shape[0] for shape in small.shapes)
    assert removed > 0 or density == 0.5


@pytest.mark.slow
@pytest.mark.parametrize("name", NETWORKS)
def test_dead_channels_make_every_network_smaller_and_leave_the_given_one_alone(name: str) -> None:
    net = masked_network(zoo_backbone(name, 32 if name == "wrn14_2" else 64), TWO_DOMAINS, ["dead channels"], 3)
    before = {key: tensor.clone() for key, tensor in net.state_dict().items()}
    network = build_graph(net)
    small = cut(network)
    assert _num_weights(small) < 0.95 * _num_weights(network)
    assert all(torch.equal(tensor, before[key]) for key, tensor in net.state_dict().items())
    assert_same(net, small, sensitive=True)


@pytest.mark.slow
@settings(max_examples=25)
@given(seed=st.integers(0, 2**31), modes=st.lists(st.sampled_from(MODES), min_size=1, max_size=13))
def test_any_mixture_of_masks_is_cut_exactly(seed: int, modes: list[str]) -> None:
    net = masked_network(zoo_backbone("wrn14_2", 32), TWO_DOMAINS, modes, seed)
    assert_same(net, cut(build_graph(net)))


def test_with_everything_on_nothing_goes() -> None:
    network = build_graph(masked_network(zoo_backbone("wrn14_2", 32), TWO_DOMAINS, ["everything on"], 1))
    small = cut(network)
    assert small.graph == network.graph
    assert all(mask.all() for mask in small.masks.values())


def test_a_network_with_every_layer_off_still_answers() -> None:
    net = masked_network(zoo_backbone("wrn14_2", 32), TWO_DOMAINS, ["layer off"], 2)
    small = cut(build_graph(net))
    assert _num_weights(small) < 500
    assert_same(net, small)


CHAIN = make_graph(
    convolution("first", [0], (4, 3), activation="relu"),
    convolution("second", [1], (3, 4)),
    {"op": "mean", "inputs": (2,)},
)


def _chain(first: dict[str, list[float]], second: dict[str, list[float]]) -> GraphNetwork:
    """Return the chain with the tensors that a test is about, and dense random weights."""
    network = from_bundle(random_bundle(CHAIN, 6, density=1.0), ["a"])
    tensors = [{role: np.array([numbers]) for role, numbers in part.items()} for part in (first, second, {})]
    nodes = tuple(Node(operation, part) for operation, part in zip(CHAIN, tensors, strict=True))
    return GraphNetwork(nodes, 6, network.weights, network.masks, network.heads)


def test_a_channel_that_nothing_reads_goes_with_its_kernels() -> None:
    network = _chain({}, {})
    network.masks["second"][:, :, 2] = False
    small = cut(network)
    assert [shape[0] for shape in small.shapes] == [3, 3, 3, 3]
    np.testing.assert_array_equal(small.weights["first"], network.weights["first"][[0, 1, 3]])
    np.testing.assert_array_equal(small.weights["second"], network.weights["second"][:, [0, 1, 3]])
    assert not small.nodes[1].tensors


def test_a_constant_becomes_kernels_over_ones_of_what_reads_it() -> None:
    network = _chain({"bias": [0.0, 2.0, 0.0, 0.0]}, {})
    network.masks["first"][:, 1] = False
    small = cut(network)
    assert small.shapes[1][0] == 3
    np.testing.assert_allclose(small.nodes[1].tensors["ones"][0], 2 * network.weights["second"][:, 1], rtol=1e-6)


def test_a_constant_of_a_convolution_without_padding_becomes_a_bias() -> None:
    chain = _chain({"bias": [0.0, 2.0, 0.0, 0.0]}, {"scale": [1.0, 2.0, 3.0]})
    valid = Node(chain.graph[1].model_copy(update={"pads": (0, 0, 0, 0)}), chain.nodes[1].tensors)
    network = GraphNetwork((chain.nodes[0], valid, chain.nodes[2]), 6, chain.weights, chain.masks, chain.heads)
    network.masks["first"][:, 1] = False
    expected = 2 * network.weights["second"][:, 1].sum(axis=(1, 2)) * [1, 2, 3]
    np.testing.assert_allclose(cut(network).nodes[1].tensors["bias"][0], expected, rtol=1e-5)


def test_a_constant_feature_goes_into_the_classifiers_bias() -> None:
    network = _chain({}, {"bias": [0.0, 0.0, 3.0]})
    network.masks["second"][:, 2] = False
    small = cut(network)
    assert small.shapes[-1] == (2, 1, 1)
    (weight, bias), (_, folded) = network.heads[0], small.heads[0]
    np.testing.assert_allclose(folded, bias + 3 * weight[:, 2], rtol=1e-6)


def test_what_a_layer_was_is_remembered() -> None:
    network = _chain({}, {})
    network.masks["second"][:, :, 2] = False
    first, second, _ = cut(network).graph
    assert isinstance(first, Conv)
    assert isinstance(second, Conv)
    assert (first.channels, first.was, second.channels, second.was) == ((3, 3), (4, 3), (3, 3), (3, 4))
    again = cut(cut(network)).graph[0]
    assert isinstance(again, Conv)
    assert again.was == (4, 3)


def test_a_channel_that_is_dead_in_one_domain_only_stays() -> None:
    _, net = tiny_net(
        nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten())
    )
    assert net.switches is not None
    with torch.no_grad():
        net.switches.layout.views(net.switches.scores_DM)["0"][0, 1] = -1
    small = cut(build_graph(net))
    assert small.shapes[1][0] == 4
    assert small.masks["0"].sum(axis=(1, 2)).tolist() == [9, 12]
    assert_same(net, small)


def test_a_kernel_whose_output_a_domain_does_not_read_is_off_in_that_domain() -> None:
    _, net = tiny_net(nn.Sequential(nn.Conv2d(3, 4, 3), nn.ReLU(), nn.Conv2d(4, 2, 1), nn.Flatten()))
    assert net.switches is not None
    with torch.no_grad():
        net.switches.layout.views(net.switches.scores_DM)["2"][0, :, 1] = -1
    small = cut(build_graph(net))
    assert small.masks["0"].all(axis=2).tolist() == [[True, False, True, True], [True] * 4]
    assert_same(net, small)


@pytest.mark.parametrize("left", [0, 2])
def test_a_depthwise_convolution_may_keep_a_single_channel(left: int) -> None:
    layers = (nn.Conv2d(3, 4, 1), nn.Conv2d(4, 4, 3, groups=4), nn.BatchNorm2d(4), nn.Conv2d(4, 5, 1))
    _, net = tiny_net(nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten()))
    assert net.switches is not None
    with torch.no_grad():
        view = net.switches.layout.views(net.switches.scores_DM)["1"]
        view[:] = -1
        view[:, left] = 1
    small = cut(build_graph(net))
    assert [shape[0] for shape in small.shapes] == [3, 1, 1, 5, 5]
    np.testing.assert_array_equal(small.weights["1"], layers[1].weight.detach().numpy()[left : left + 1])
    assert_same(net, small)


@pytest.mark.parametrize("granularity", ["filter", "input_channel"])
@pytest.mark.parametrize("name", ["wrn14_2", "timm/mobilenetv2_100"])
def test_with_whole_channels_switched_the_union_is_a_smaller_dense_network(name: str, granularity: str) -> None:
    backbone = zoo_backbone(name, 32 if name == "wrn14_2" else 64)
    options = METHODS["union"].options.model_validate({"granularity": granularity})
    net = adapt(backbone, TWO_DOMAINS, "union", options=options).eval()
    assert net.switches is not None
    generator = torch.Generator().manual_seed(0)
    with torch.no_grad():
        scores = net.switches.scores_DM
        scores.copy_((torch.rand(scores.shape[1], generator=generator) - 0.5).expand(scores.shape))
    network = build_graph(net)
    small = cut(network)
    assert _num_weights(small) < 0.8 * _num_weights(network)
    assert_same(net, small)


def _half_and_whole(domains: tuple[str, ...]) -> MultiDomainNet:
    """Return a network whose first domain uses half of the kernels, and whose others use all."""
    net = adapt(zoo_backbone("wrn14_2", 32), dict.fromkeys(domains, ("x", "y")), "union")
    assert net.switches is not None
    generator = torch.Generator().manual_seed(0)
    with torch.no_grad():
        scores = net.switches.scores_DM[:1]
        scores.copy_(torch.rand(scores.shape, generator=generator) - 0.4)
        for view in net.switches.layout.views(scores).values():
            view[:, torch.rand(view.shape[1], generator=generator) < 0.3] = -1.0
    return net


def test_a_domain_of_several_becomes_as_small_as_one_packed_alone() -> None:
    backbone = load_backbone(BackboneChoice(name="wrn14_2"))
    entry = DomainEntry(classes=("x", "y"), preprocess=backbone.preprocess)
    several = pack(_half_and_whole(("a", "b")), backbone, {"a": entry, "b": entry}, {})
    alone = pack(_half_and_whole(("a",)), backbone, {"a": entry}, {})
    assert cut(from_bundle(several, ["a"])).shapes == alone.manifest.shapes
    assert several.manifest.shapes != alone.manifest.shapes
