"""A network written as a graph gives the masked network's logits, whatever the network and the masks."""

import pytest
import torch
import torch.nn.functional as F
from hypothesis import example, given, settings
from hypothesis import strategies as st
from torch import Tensor

from prunus.arrays import Floats
from prunus.backbone.zoo import Backbone
from prunus.errors import BackboneError
from prunus.graph.cut import cut
from prunus.graph.network import GraphNetwork
from prunus.graph.operations import Conv
from prunus.lowering.build import build_graph
from prunus.masks.network import MultiDomainNet
from prunus.torch_graph.network import TorchNetwork
from tests.makers.masked_networks import (
    MODES,
    TWO_DOMAINS,
    ExpectedLogits,
    draw_tiny,
    masked_network,
    zoo_backbone,
)
from tests.makers.odd_networks import OddNetwork, Run, mean, odd_net

SIZES = {
    "wrn14_2": 32,
    "wrn28_4": 32,
    "timm/resnet18": 64,
    "timm/resnet50": 33,
    "timm/resnet50d": 52,  # windows that end after the image
    "timm/resnext50_32x4d": 32,
    "timm/mobilenetv2_100": 32,
    "timm/mobilenetv3_large_100": 32,
    "timm/efficientnet_lite0": 32,
    "timm/efficientnet_b0": 32,
    "timm/tf_efficientnetv2_b0": 47,  # pads more after the image than before
    "timm/regnety_002": 32,
    "timm/densenet121": 32,
    "timm/convnext_atto": 32,
}


def _backbone(name: str) -> Backbone:
    return zoo_backbone(name, SIZES[name])


def assert_same(net: MultiDomainNet, *networks: GraphNetwork, sensitive: bool = False) -> None:
    """Compare the logits of one or several graphs with those of a network."""
    expected = ExpectedLogits(net, exact=True)
    for network in networks:
        module = TorchNetwork(network, net.domains)

        @torch.no_grad()
        def answer(images: Floats, domain: str, module: TorchNetwork = module) -> Floats:
            logits: Floats = module(torch.from_numpy(images), domain).numpy()
            return logits

        expected.assert_same(answer, sensitive)


def _ops(network: GraphNetwork) -> str:
    return " ".join(operation.op for operation in network.graph)


@pytest.mark.slow
@pytest.mark.parametrize("name", SIZES)
def test_every_network_becomes_a_graph_with_the_same_logits_before_and_after_cutting(name: str) -> None:
    net = masked_network(_backbone(name), TWO_DOMAINS, MODES[:-1])
    network = build_graph(net)
    assert_same(net, network, cut(network), sensitive=True)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["wrn28_4", "timm/mobilenetv3_large_100", "timm/regnety_002", "timm/convnext_atto"])
def test_networks_with_layers_off_become_graphs_with_the_same_logits(name: str) -> None:
    modes = ["everything on", "layer off", "sparse", "dead in one domain", "dead channels"]
    net = masked_network(_backbone(name), TWO_DOMAINS, modes)
    assert_same(net, cut(build_graph(net)))


@pytest.mark.slow
@settings(max_examples=15)
@given(seed=st.integers(0, 2**31), modes=st.lists(st.sampled_from(MODES), min_size=1, max_size=13))
@example(seed=1, modes=["everything on"])
@example(seed=2, modes=["layer off"])
@example(seed=3, modes=["dead in one domain"])
def test_any_mixture_of_masks_becomes_a_graph_with_the_same_logits(seed: int, modes: list[str]) -> None:
    net = masked_network(_backbone("wrn14_2"), TWO_DOMAINS, modes, seed)
    assert_same(net, cut(build_graph(net)))


def _in_place(m: OddNetwork, x: Tensor) -> Tensor:
    y = m.norm(m.a(x))
    return mean(m.c(m.b(m.inplace(y)) + y))


def _functional_in_place(m: OddNetwork, x: Tensor) -> Tensor:
    y = m.norm(m.a(x))
    return mean(m.wide(torch.cat([F.relu(y, inplace=True), y], 1)))


def _sum_in_place(m: OddNetwork, x: Tensor) -> Tensor:
    y = m.norm(m.a(x))
    y.add_(m.b(m.c(y)))
    return mean(m.c(y))


def _squeeze_excite(m: OddNetwork, x: Tensor) -> Tensor:
    y = m.norm(m.a(x))
    return mean(m.wide(torch.cat([y, y], 1)) * torch.sigmoid(m.c(y.mean((2, 3), keepdim=True))))


def _hard_gate(m: OddNetwork, x: Tensor) -> Tensor:
    y = m.act(m.norm(m.a(x)) - 5.0)  # mostly zeros, in some channels always
    return mean(m.b(y * F.hardsigmoid(m.c(y.mean((2, 3), keepdim=True)) * 9)))


def _twice(m: OddNetwork, x: Tensor) -> Tensor:
    y = m.norm(m.a(x))
    return mean(m.c(m.act(y + y)) - y * y.size(2))


ODD: dict[str, Run] = {
    "a layer that runs twice": lambda m, x: mean(m.c(m.act(m.b(m.b(m.a(x)))))),
    "an activation that runs twice": lambda m, x: mean(m.c(m.act(m.b(m.act(m.norm(m.a(x))))))),
    "a change in place that others see": _in_place,
    "a functional change in place": _functional_in_place,
    "a sum in place": _sum_in_place,
    "x + x, a difference, a size": _twice,
    "times a number": lambda m, x: mean(m.c(m.norm(m.a(x)) * 2.0)),
    "a dilated grouped convolution": lambda m, x: mean(m.wide(m.grouped(m.act(m.norm(m.a(x)))))),
    "squeeze and excitation": _squeeze_excite,
    "a gate that is zero": _hard_gate,
    "a flattening by keyword": lambda m, x: m.c(m.norm(m.a(x))).flatten(start_dim=1),
    "concatenation along an axis": lambda m, x: mean(m.wide(torch.cat((m.norm(m.a(x)), m.c(m.a(x))), axis=1))),  # type: ignore[call-arg]
    "a map of pixels": lambda m, x: mean(m.b(m.act(m.a(x)) * m.norm(m.a(x)).mean((2, 3), keepdim=True)[:, :1])),
    "chunks": lambda m, x: mean(m.c(torch.cat(m.norm(m.a(x)).chunk(2, 1), 1))),
    "a constant with the shape of a value": lambda m, x: mean(m.c(m.scale[:, None, None].expand_as(m.a(x)) * m.a(x))),
    "a constant with the type of a value": lambda m, x: mean(m.c(m.scale[:, None, None].type_as(x) * m.a(x))),
    "ones like a value": lambda m, x: mean(m.c(m.a(x) + torch.ones_like(m.a(x)))),
    "new numbers": lambda m, x: mean(m.c(m.a(x) + x.new_full((4, 1, 1), 2.0))),
    "double precision": lambda m, x: mean(m.c(m.norm(m.a(x)).double().to(x.dtype))),
    "dropout": lambda m, x: mean(m.c(F.dropout(m.norm(m.a(x)), 0.5, m.training))),
}


@pytest.mark.parametrize("name", ODD)
@pytest.mark.parametrize("mode", ["dead channels", "dead in one domain", "sparse", "layer off"])
def test_odd_networks_keep_their_logits_and_their_training_mode(name: str, mode: str) -> None:
    _, net = odd_net(ODD[name])
    net.train()
    draw_tiny(net, mode, torch.Generator().manual_seed(len(name)))
    modes = [module.training for module in net.network.modules()]
    network = cut(build_graph(net))
    assert [module.training for module in net.network.modules()] == modes
    assert_same(net.eval(), network)


def _read_twice(m: OddNetwork, x: Tensor) -> Tensor:
    y = m.a(x)
    return mean(m.act(m.norm(y)) + y)


FUSED: dict[str, tuple[Run, str]] = {
    "a norm and an activation go into the convolution": (lambda m, x: mean(m.act(m.norm(m.a(x)))), "conv mean"),
    "two norms go into the convolution": (lambda m, x: mean(m.again(m.norm(m.a(x)))), "conv mean"),
    "a sum goes into the later convolution": (
        lambda m, x: mean(m.act(m.c(m.a(x)) + m.norm(m.b(m.a(x))))),
        "conv conv conv conv mean",
    ),
    "an activation before a sum stays there": (
        lambda m, x: mean(m.act(m.c(m.act(m.a(x)))) + m.a(x)),
        "conv conv conv mean",
    ),
    "a norm after a sum stays after it": (
        lambda m, x: mean(m.norm(m.c(m.act(m.a(x))) + m.a(x))),
        "conv conv conv affine mean",
    ),
    "a convolution that is read twice takes nothing in": (_read_twice, "conv affine add mean"),
    "dilation, groups and a rectangle": (
        lambda m, x: mean(m.wide(F.leaky_relu(m.grouped(m.a(x)), 0.2))),
        "conv conv conv mean",
    ),
}


@pytest.mark.parametrize("name", FUSED)
@pytest.mark.parametrize("mode", ["everything on", "dead channels", "dead in one domain"])
def test_what_can_be_computed_in_one_pass_is_one_operation(name: str, mode: str) -> None:
    run, operations = FUSED[name]
    _, net = odd_net(run)
    draw_tiny(net, mode, torch.Generator().manual_seed(len(name)))
    network = cut(build_graph(net))
    assert _ops(network) == operations
    assert_same(net, network)


def test_of_two_convolutions_the_later_takes_the_sum_and_what_follows() -> None:
    _, net = odd_net(lambda m, x: mean(m.act(m.norm(m.c(m.a(x))) + m.again(m.b(m.a(x))))))
    *_, first, second, _pooled = build_graph(net).graph
    assert isinstance(first, Conv)
    assert isinstance(second, Conv)
    assert (first.layer, len(first.inputs), first.activation) == ("a", 1, "none")
    assert (second.layer, len(second.inputs), second.activation) == ("b", 2, "relu")


REFUSED: dict[str, tuple[Run, str]] = {
    "a roll": (
        lambda m, x: mean(m.c(torch.roll(m.a(x), 1, 1))),
        r"layer 'c' \(Conv2d\) reads numbers in an order that a graph cannot copy, such as after a flip, a roll",
    ),
    "a flip at the end": (lambda m, x: mean(m.a(x)).flip(1), "the classifier reads numbers in an order"),
    "a list of channels at the end": (lambda m, x: mean(m.a(x))[:, [0, 2, 3, 1]], "the classifier reads numbers in"),
    "a layer on scores": (
        lambda m, x: mean(m.b(m.a(x).mT @ m.a(x))),
        r"layer 'b' \(Conv2d\) reads products of two values",
    ),
    "whole numbers": (
        lambda m, x: mean(m.c(m.a(x).to(torch.int64).type_as(x))),
        "the operation 'to' rounds numbers to the type int64",
    ),
    "half precision": (
        lambda m, x: mean(m.c(m.a(x).to(torch.bfloat16).float())),
        "the operation 'to' rounds numbers to the type bfloat16",
    ),
    "a softmax": (lambda m, x: m.a(x).softmax(1).mean((2, 3)), "the operation 'softmax'"),
    "a cube": (lambda m, x: mean(m.a(x) ** 3), "the operation 'pow"),
    "a sum of channels": (lambda m, x: mean(m.a(x) * m.a(x).sum(1, keepdim=True)), "the operation 'sum"),
    "a scaled sum": (lambda m, x: mean(torch.add(m.a(x), m.a(x), alpha=2)), "the operation 'add'"),
    "an average with another divisor": (
        lambda m, x: mean(F.avg_pool2d(m.a(x), 2, divisor_override=3)),
        "the operation 'avg_pool2d'",
    ),
    "padded pixels": (lambda m, x: mean(F.pad(m.a(x), (1, 1, 1, 1), value=1.0)), "the operation 'pad'"),
    "a softmax of channels": (
        lambda m, x: mean(m.a(x).softmax(1)),
        "the operation 'softmax' of something else than scores of attention",
    ),
    "weights without their layer": (
        lambda m, x: F.linear(mean(m.a(x)), m.c.weight[:, :, 0, 0]),
        "the operation 'linear' with the weights of a layer that is not called",
    ),
    "scores in another order": (
        lambda m, x: mean((m.a(x).mT @ m.a(x)).permute(0, 1, 3, 2)),
        "the operation 'permute' on scores of attention",
    ),
    "fewer channels": (
        lambda m, x: mean(m.b(F.pad(m.grouped(m.norm(m.a(x))), (0, 0, 0, 0, 0, -4)))),
        "the operation 'pad'",
    ),
    "another activation": (lambda m, x: mean(F.hardtanh(m.a(x), -2, 2)), "the operation 'hardtanh'"),
    "an unknown layer": (lambda m, x: mean(m.act(m.a(x))), r"layer 'act' \(Softmax2d\)"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_a_graph_does_not_know_is_refused_by_name(name: str) -> None:
    run, message = REFUSED[name]
    _, net = odd_net(run, torch.nn.Softmax2d())
    with pytest.raises(BackboneError, match=f"{message}.* no model file can hold it; choose another network"):
        build_graph(net)


def test_masks_norms_and_heads_are_those_of_every_domain() -> None:
    _, net = odd_net(lambda m, x: mean(m.act(m.norm(m.a(x)))))
    draw_tiny(net, "half", torch.Generator().manual_seed(1))
    network = build_graph(net)
    assert net.switches is not None
    learned = net.switches.layer_masks()["a"][..., 0, 0]
    assert (torch.from_numpy(network.masks["a"]) == learned).all()
    scales = network.nodes[0].tensors["scale"]
    for domain, name in enumerate(net.domains):
        tensors = net.tensors(name)
        expected = tensors["norm.weight"] / torch.sqrt(tensors["norm.running_var"] + 1e-5)
        torch.testing.assert_close(torch.from_numpy(scales[domain]).float(), expected.detach())
        head = net.heads[domain]
        assert isinstance(head, torch.nn.Linear)
        assert (torch.from_numpy(network.heads[domain][0]) == head.weight).all()
