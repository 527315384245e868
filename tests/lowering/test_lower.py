"""A network written as a graph of operations gives the masked network's logits, whatever the network and the masks."""

from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F
from hypothesis import example, given, settings
from hypothesis import strategies as st
from torch import Tensor, nn

from prunus.backbone.probe import probe_network
from prunus.backbone.zoo import Backbone
from prunus.bundle.bundle import Bundle
from prunus.errors import BackboneError
from prunus.graph.operations import Conv
from prunus.images import Preprocess
from prunus.masks.network import MultiDomainNet
from prunus.methods.table import adapt
from prunus.runtime.numpy_engine import NumpyEngine
from tests.makers.masked_networks import MODES, assert_same_logits, draw_tiny, masked_network, packed, zoo_backbone

CLASSES = {"a": ("x", "y"), "b": ("x", "y", "z")}
SIZES = {
    "wrn14_2": 32,
    "wrn28_4": 32,
    "timm/resnet18": 64,
    "timm/resnet50": 33,
    "timm/resnet50d": 52,  # windows that end behind the image
    "timm/resnext50_32x4d": 32,
    "timm/mobilenetv2_100": 32,
    "timm/mobilenetv3_large_100": 32,
    "timm/efficientnet_lite0": 32,
    "timm/efficientnet_b0": 32,
    "timm/tf_efficientnetv2_b0": 47,  # pads more behind than before
    "timm/regnety_002": 32,
    "timm/densenet121": 32,
    "timm/convnext_atto": 32,
}


def _backbone(name: str) -> Backbone:
    return zoo_backbone(name, SIZES[name])


def _pack(net: MultiDomainNet, backbone: Backbone) -> Bundle:
    return packed(net, backbone, CLASSES)


def _assert_same_logits(net: MultiDomainNet, bundle: Bundle, sensitive: bool = False) -> None:
    assert_same_logits(net, NumpyEngine(bundle).logits, sensitive, exact=True)


@pytest.mark.parametrize("name", SIZES)
def test_every_network_becomes_a_graph_with_the_same_logits(name: str) -> None:
    net = masked_network(_backbone(name), CLASSES, MODES[:-1])
    _assert_same_logits(net, _pack(net, _backbone(name)), sensitive=True)


@pytest.mark.parametrize("name", ["wrn28_4", "timm/mobilenetv3_large_100", "timm/regnety_002", "timm/convnext_atto"])
def test_networks_with_layers_off_become_graphs_with_the_same_logits(name: str) -> None:
    net = masked_network(
        _backbone(name), CLASSES, ["everything on", "layer off", "sparse", "dead in one domain", "dead channels"]
    )
    _assert_same_logits(net, _pack(net, _backbone(name)))


@settings(max_examples=15, deadline=None)
@given(seed=st.integers(0, 2**31), modes=st.lists(st.sampled_from(MODES), min_size=1, max_size=13))
@example(seed=1, modes=["everything on"])
@example(seed=2, modes=["layer off"])
@example(seed=3, modes=["dead in one domain"])
def test_any_mixture_of_masks_becomes_a_graph_with_the_same_logits(seed: int, modes: list[str]) -> None:
    net = masked_network(_backbone("wrn14_2"), CLASSES, modes, seed)
    _assert_same_logits(net, _pack(net, _backbone("wrn14_2")))


class _Odd(nn.Module):
    """A network whose forward pass is given as a function of its layers."""

    def __init__(self, run: Callable[["_Odd", Tensor], Tensor]) -> None:
        super().__init__()
        self.a, self.b, self.c = nn.Conv2d(3, 4, 3, padding=1), nn.Conv2d(4, 4, 3, padding="same"), nn.Conv2d(4, 4, 1)
        self.wide, self.grouped = nn.Conv2d(8, 4, 1), nn.Conv2d(4, 8, (3, 5), padding=2, dilation=2, groups=4)
        self.norm, self.again = nn.BatchNorm2d(4), nn.BatchNorm2d(4, affine=False)
        self.act: nn.Module = nn.ReLU()
        self.flat, self.features = nn.BatchNorm1d(4), nn.LayerNorm(4)
        self.scale = nn.Parameter(torch.linspace(0.5, 2.0, 4))
        self._run = run

    def forward(self, x: Tensor) -> Tensor:
        return self._run(self, x)


def _mean(x: Tensor) -> Tensor:
    return x.mean((2, 3))


def _read_twice(m: _Odd, x: Tensor) -> Tensor:
    y = m.a(x)
    return _mean(m.act(m.norm(y)) + y)


def _doubled(m: _Odd, x: Tensor) -> Tensor:
    y = m.a(x)
    return _mean(y + y)


def _numbers(m: _Odd, x: Tensor) -> Tensor:
    return _mean(3.0 - (m.a(x) * m.scale.reshape(1, -1, 1, 1) + 1) * 0.5 * x.size(2))


def _gate(m: _Odd, x: Tensor) -> Tensor:
    y = m.a(x)
    return _mean(torch.sigmoid(m.c(y.mean((2, 3), keepdim=True))) * y)


def _viewed(m: _Odd, x: Tensor) -> Tensor:
    y: Tensor = m.c(m.a(x))
    return y.view(y.size(0), -1)


def _pools(m: _Odd, x: Tensor) -> Tensor:
    y = F.max_pool2d(m.a(x), 3, 2, 1)
    y = F.avg_pool2d(y, 3, 2, 1, True, True)
    return F.adaptive_avg_pool2d(F.avg_pool2d(y, 2, ceil_mode=True, count_include_pad=False), 1).flatten(1)


Run = Callable[[_Odd, Tensor], Tensor]
FUSED: dict[str, tuple[Run, str]] = {
    "a norm and an activation go into the convolution": (lambda m, x: _mean(m.act(m.norm(m.a(x)))), "conv mean"),
    "two norms go into the convolution": (lambda m, x: _mean(m.again(m.norm(m.a(x)))), "conv mean"),
    "a sum goes into the later convolution": (
        lambda m, x: _mean(m.act(m.c(m.a(x)) + m.norm(m.b(m.a(x))))),
        "conv conv conv conv mean",
    ),
    "an activation before a sum stays there": (
        lambda m, x: _mean(m.act(m.c(m.act(m.a(x)))) + m.a(x)),
        "conv conv conv mean",
    ),
    "a norm after a sum stays behind it": (
        lambda m, x: _mean(m.norm(m.c(m.act(m.a(x))) + m.a(x))),
        "conv conv conv affine mean",
    ),
    "a convolution that is read twice takes nothing in": (_read_twice, "conv affine add mean"),
    "x + x": (_doubled, "conv add mean"),
    "numbers and constants go into the convolution": (_numbers, "conv mean"),
    "a difference": (lambda m, x: _mean(m.act(m.a(x)) - m.c(m.a(x))), "conv conv conv mean"),
    "dilation, groups and a rectangle": (
        lambda m, x: _mean(m.wide(F.leaky_relu(m.grouped(m.a(x)), 0.2))),
        "conv conv conv mean",
    ),
    "one pixel for all, on the left": (_gate, "conv mean conv mul mean"),
    "features that are normed": (lambda m, x: m.features(m.flat(_mean(m.a(x)))), "conv mean affine layer_norm"),
    "flattened pixels": (lambda m, x: m.c(m.a(x)).flatten(start_dim=1), "conv conv"),
    "viewed pixels": (_viewed, "conv conv"),
    "pools of all kinds": (_pools, "conv pool pool pool mean"),
}


def _tiny(run: Run, act: nn.Module | None = None) -> tuple[Backbone, MultiDomainNet]:
    torch.manual_seed(0)
    network = _Odd(run)
    network.act = act or network.act
    preprocess = Preprocess(size=9, resize=9, mean=(0, 0, 0), std=(1, 1, 1))
    backbone = Backbone("tiny", network, preprocess, probe_network(network, 9))
    return backbone, adapt(backbone, CLASSES, "union").eval()


@pytest.mark.parametrize("name", FUSED)
@pytest.mark.parametrize("mode", ["everything on", "dead channels", "dead in one domain"])
def test_what_can_be_computed_in_one_go_is_one_operation(name: str, mode: str) -> None:
    run, operations = FUSED[name]
    backbone, net = _tiny(run)
    draw_tiny(net, mode, torch.Generator().manual_seed(len(name)))
    bundle = _pack(net, backbone)
    assert [operation.op for operation in bundle.manifest.graph] == operations.split()
    _assert_same_logits(net, bundle)


def test_of_two_convolutions_the_later_takes_the_sum_and_what_follows() -> None:
    backbone, net = _tiny(lambda m, x: _mean(m.act(m.norm(m.c(m.a(x))) + m.again(m.b(m.a(x))))))
    *_, first, second, _mean_of_all = _pack(net, backbone).manifest.graph
    assert isinstance(first, Conv)
    assert isinstance(second, Conv)
    assert (first.layer, len(first.inputs), first.activation) == ("a", 1, "none")
    assert (second.layer, len(second.inputs), second.activation) == ("b", 2, "relu")


REFUSED: dict[str, tuple[Run, str]] = {
    "a roll": (lambda m, x: _mean(torch.roll(m.a(x), 1, 1)), "the operation 'roll'"),
    "a softmax": (lambda m, x: m.a(x).softmax(1).mean((2, 3)), "the operation 'softmax'"),
    "a scaled sum": (lambda m, x: _mean(torch.add(m.a(x), m.a(x), alpha=2)), "the operation 'add'"),
    "a map of pixels": (lambda m, x: _mean(m.a(x) * m.a(x).mean((2, 3), keepdim=True)[:, :1]), "the operation"),
    "an average with another divisor": (
        lambda m, x: _mean(F.avg_pool2d(m.a(x), 2, divisor_override=3)),
        "the operation 'avg_pool2d'",
    ),
    "padded pixels": (lambda m, x: _mean(F.pad(m.a(x), (1, 1, 1, 1))), "the operation 'pad'"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_a_graph_cannot_say_is_refused_by_name(name: str) -> None:
    run, message = REFUSED[name]
    backbone, net = _tiny(run)
    with pytest.raises(BackboneError, match=f"{message}.* no model file can hold it; choose another network"):
        _pack(net, backbone)


def test_tensors_that_all_domains_share_are_kept_once_and_neutral_ones_not_at_all() -> None:
    backbone, net = _tiny(lambda m, x: _mean(m.act(m.norm(m.a(x)))))
    names = {name for name in _pack(net, backbone).arrays if name.startswith(("norm", "shared"))}
    assert names == {"shared/0.scale", "shared/0.bias"}
    with torch.no_grad():
        net.tensors("b")["norm.bias"].add_(1)
    names = {name for name in _pack(net, backbone).arrays if name.startswith(("norm", "shared"))}
    assert names == {"shared/0.scale", "norm/a/0.bias", "norm/b/0.bias"}


ACTIVATIONS: list[Callable[[Tensor], Tensor]] = [
    *(nn.ReLU6(), nn.Hardtanh(0, 6), nn.LeakyReLU(0.3), nn.ELU(0.7), nn.SiLU(), nn.GELU(), nn.GELU("tanh"), nn.Mish()),
    *(nn.Hardswish(), nn.Hardsigmoid(), nn.Sigmoid(), nn.Tanh(), F.relu6, F.elu, F.silu, F.gelu, F.mish, F.hardswish),
    *(F.hardsigmoid, torch.tanh, lambda x: F.hardtanh(x, 0, 6), lambda x: F.gelu(x, approximate="tanh")),
    *(lambda x: F.leaky_relu(x, negative_slope=0.2), lambda x: x.sigmoid(), lambda x: x.relu()),
]


@pytest.mark.parametrize("place", range(len(ACTIVATIONS)))
def test_every_activation_is_the_one_that_it_was(place: int) -> None:
    activation = ACTIVATIONS[place]
    if isinstance(activation, nn.Module):
        backbone, net = _tiny(lambda m, x: _mean(m.act(m.norm(m.a(x) * 9))), activation)
    else:
        backbone, net = _tiny(lambda m, x: _mean(activation(m.norm(m.a(x) * 9))))
    bundle = _pack(net, backbone)
    assert [operation.op for operation in bundle.manifest.graph] == ["conv", "mean"]
    _assert_same_logits(net, bundle)


def test_an_activation_that_a_graph_has_not_is_refused() -> None:
    backbone, net = _tiny(lambda m, x: _mean(F.hardtanh(m.a(x), -2, 2)))
    with pytest.raises(BackboneError, match="the operation 'hardtanh'"):
        _pack(net, backbone)
