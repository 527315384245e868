"""The smaller network gives the masked network's logits, whatever the masks; and it is smaller."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from torch import Tensor, nn

from prunus.arrays import Floats
from prunus.backbone.probe import probe_network
from prunus.backbone.zoo import Backbone
from prunus.errors import BackboneError
from prunus.images import Preprocess
from prunus.lowering.plan import PrunePlan, load_plan, plan_pruning
from prunus.lowering.shrink import shrink
from prunus.masks.network import MultiDomainNet
from prunus.methods.table import METHODS, adapt
from tests.makers.masked_networks import MODES, assert_same_logits, draw_tiny, masked_network, zoo_backbone

CLASSES = {"a": ("x", "y"), "b": ("x", "y", "z")}
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


def _backbone(name: str) -> Backbone:
    return zoo_backbone(name, 32 if name == "wrn14_2" else 64)


def _conv_weights(network: nn.Module) -> int:
    return sum(module.weight.numel() for module in network.modules() if isinstance(module, nn.Conv2d))


def _assert_same_logits(net: MultiDomainNet, small: MultiDomainNet, sensitive: bool = False) -> None:
    @torch.no_grad()
    def answer(images: Floats, domain: str) -> Floats:
        logits: Floats = small(torch.from_numpy(images), domain).numpy()
        return logits

    assert_same_logits(net, answer, sensitive)


@pytest.mark.slow
@pytest.mark.parametrize("name", NETWORKS)
@settings(max_examples=1, deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow])
@given(seed=st.integers(0, 2**31), modes=st.lists(st.sampled_from(MODES), min_size=1, max_size=5))
@example(seed=1, modes=["layer off", "everything on", "sparse"])
@example(seed=2, modes=["dead in one domain"])
@example(seed=3, modes=["everything on"])
def test_the_shrunk_network_gives_the_masked_networks_logits(name: str, seed: int, modes: list[str]) -> None:
    backbone = _backbone(name)
    net = masked_network(backbone, CLASSES, modes, seed)
    small = shrink(net, plan_pruning(net))
    assert _conv_weights(small.network) <= _conv_weights(net.network)
    _assert_same_logits(net, small, sensitive=modes in (["everything on"], ["dead in one domain"]))


@pytest.mark.parametrize("name", NETWORKS)
def test_dead_channels_make_every_network_smaller_and_leave_the_given_one_alone(name: str) -> None:
    backbone = _backbone(name)
    net = masked_network(backbone, CLASSES, ["dead channels"], 3)
    before = {key: tensor.clone() for key, tensor in net.state_dict().items()}
    plan = plan_pruning(net)
    small = shrink(net, plan)
    assert _conv_weights(small.network) < 0.95 * _conv_weights(net.network)
    assert {key: torch.equal(tensor, before[key]) for key, tensor in net.state_dict().items()} == dict.fromkeys(
        before, True
    )
    _assert_same_logits(net, small, sensitive=True)


def test_with_everything_on_nothing_goes() -> None:
    net = masked_network(_backbone("wrn14_2"), CLASSES, ["everything on"], 1)
    plan = plan_pruning(net)
    assert all(len(layer.outputs) == layer.num_outputs and layer.kernels == layer.num_kernels for layer in plan.layers)
    assert _conv_weights(shrink(net, plan).network) == _conv_weights(net.network)


@settings(max_examples=25, deadline=None)
@given(seed=st.integers(0, 2**31), modes=st.lists(st.sampled_from(MODES), min_size=1, max_size=13))
def test_any_mixture_of_masks_shrinks_exactly(seed: int, modes: list[str]) -> None:
    backbone = _backbone("wrn14_2")
    net = masked_network(backbone, CLASSES, modes, seed)
    _assert_same_logits(net, shrink(net, plan_pruning(net)))


def _tiny(network: nn.Module) -> MultiDomainNet:
    torch.manual_seed(0)
    preprocess = Preprocess(size=8, resize=8, mean=(0, 0, 0), std=(1, 1, 1))
    return adapt(Backbone("tiny", network, preprocess, probe_network(network, 8)), CLASSES, "union").eval()


def test_a_dead_filters_bias_is_folded_exactly_up_to_the_border() -> None:
    network = nn.Sequential(
        nn.Conv2d(3, 2, 3, padding=1, bias=False),
        nn.BatchNorm2d(2),
        nn.ReLU(),
        nn.Conv2d(2, 4, 3, padding=1, bias=False),
        nn.Flatten(),
    )
    net = _tiny(network)
    assert net.switches is not None
    with torch.no_grad():
        net.switches.layout.views(net.switches.scores_DM)["0"][:, 1] = -1  # the second filter is dead in both domains
        for domain, value in (("a", 0.75), ("b", -0.5)):
            net.tensors(domain)["1.bias"][1] = value
    plan = plan_pruning(net)
    assert (plan.layers[0].outputs, plan.layers[0].constant, plan.layers[1].inputs) == ((0,), 1, (0,))
    small = shrink(net, plan)
    weight = dict(network.named_parameters())["3.weight"]
    ones = torch.ones(1, 1, 8, 8)
    constants = small.network.get_submodule("3")
    for domain, value in (("a", 0.75), ("b", 0.0)):  # ReLU makes nothing of the negative one
        own = small.tensors(domain)["3.ones_weight"]
        torch.testing.assert_close(own, weight[:, 1:] * value)
        border = F.conv2d(ones, own, padding=1)
        assert bool((border[0, :, 0, 0] != border[0, :, 4, 4]).all()) == (value != 0)
    assert type(constants).__name__ == "WithConstants"
    _assert_same_logits(net, small)


def test_a_constant_without_padding_becomes_a_bias_and_one_in_the_features_goes_into_the_heads() -> None:
    network = nn.Sequential(
        nn.Conv2d(3, 3, 1), nn.BatchNorm2d(3), nn.Conv2d(3, 4, 3), nn.AdaptiveAvgPool2d(1), nn.Flatten()
    )
    net = _tiny(network)
    assert net.switches is not None
    with torch.no_grad():
        views = net.switches.layout.views(net.switches.scores_DM)
        views["0"][:, 2] = -1
        views["2"][:, 3] = -1
    plan = plan_pruning(net)
    assert plan.layers[0].outputs == (0, 1)
    assert plan.features == (0, 1, 2)
    small = shrink(net, plan)
    assert type(small.network.get_submodule("2")) is nn.Conv2d
    assert small.heads[0].in_features == 3
    _assert_same_logits(net, small)


def test_a_channel_that_is_dead_in_one_domain_only_stays() -> None:
    net = _tiny(nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten()))
    assert net.switches is not None
    with torch.no_grad():
        net.switches.layout.views(net.switches.scores_DM)["0"][0, 1] = -1
    plan = plan_pruning(net)
    assert plan.layers[0].outputs == (0, 1, 2, 3)
    _assert_same_logits(net, shrink(net, plan))


def test_a_network_with_every_layer_off_still_answers() -> None:
    backbone = _backbone("wrn14_2")
    net = masked_network(backbone, CLASSES, ["layer off"], 2)
    small = shrink(net, plan_pruning(net))
    assert _conv_weights(small.network) < 500
    _assert_same_logits(net, small)


def test_an_operation_that_is_not_known_keeps_all_its_channels() -> None:
    class Odd(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first, self.second = nn.Conv2d(3, 4, 3), nn.Conv2d(4, 5, 3)

        def forward(self, x: Tensor) -> Tensor:
            y: Tensor = self.second(torch.roll(self.first(x), 1, 1))
            return y.mean((2, 3))

    net = _tiny(Odd())
    assert net.switches is not None
    with torch.no_grad():
        net.switches.layout.views(net.switches.scores_DM)["first"][:, :2] = -1
    plan = plan_pruning(net)
    assert len(plan.layers[0].outputs) == 4
    assert [layer.held for layer in plan.layers] == [2, 0]
    _assert_same_logits(net, shrink(net, plan))


def test_a_plan_can_be_printed_saved_and_used_later(tmp_path: Path) -> None:
    net = masked_network(_backbone("wrn14_2"), CLASSES, ["dead channels", "sparse"], 4)
    plan = plan_pruning(net)
    plan.save(tmp_path / "plan.json")
    assert load_plan(tmp_path / "plan.json") == plan
    assert "stages.0.0.conv1" in str(plan)
    _assert_same_logits(net, shrink(net, load_plan(tmp_path / "plan.json")))


def test_a_plan_of_another_network_or_no_plan_at_all_is_refused(tmp_path: Path) -> None:
    net = masked_network(_backbone("wrn14_2"), CLASSES, ["sparse"], 4)
    other = plan_pruning(_tiny(nn.Sequential(nn.Conv2d(3, 4, 3), nn.AdaptiveAvgPool2d(1), nn.Flatten())))
    with pytest.raises(BackboneError, match="the plan is of another network"):
        shrink(net, other)
    (tmp_path / "plan.json").write_text('{"layers": 3}')
    with pytest.raises(BackboneError, match="is not a plan"):
        load_plan(tmp_path / "plan.json")


def test_a_network_that_cannot_be_traced_says_so() -> None:
    class Deciding(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.conv = nn.Conv2d(3, 4, 3)

        def forward(self, x: Tensor) -> Tensor:
            y: Tensor = self.conv(x)
            return (y if bool(y.sum() > 0) else -y).mean((2, 3))

    with pytest.raises(BackboneError, match="cannot be traced as a graph"):
        plan_pruning(_tiny(Deciding()))


@pytest.mark.parametrize("granularity", ["filter", "input_channel"])
@pytest.mark.parametrize("name", ["wrn14_2", "timm/mobilenetv2_100"])
def test_with_whole_channels_switched_the_union_is_a_smaller_dense_network(name: str, granularity: str) -> None:
    backbone = _backbone(name)
    options = METHODS["union"].options.model_validate({"granularity": granularity})
    net = adapt(backbone, CLASSES, "union", options=options).eval()
    assert net.switches is not None
    generator = torch.Generator().manual_seed(0)
    with torch.no_grad():
        scores = net.switches.scores_DM
        scores.copy_((torch.rand(scores.shape[1], generator=generator) - 0.5).expand(scores.shape))
    small = shrink(net, plan_pruning(net))
    assert _conv_weights(small.network) < 0.8 * _conv_weights(net.network)
    _assert_same_logits(net, small)


class _Odd(nn.Module):
    """A network whose forward pass is given as a function of its layers."""

    def __init__(self, run: Callable[["_Odd", Tensor], Tensor]) -> None:
        super().__init__()
        self.a, self.b, self.c = nn.Conv2d(3, 4, 3, padding=1), nn.Conv2d(4, 4, 3, padding=1), nn.Conv2d(4, 4, 1)
        self.wide, self.grouped = nn.Conv2d(8, 4, 1), nn.Conv2d(4, 8, 3, padding=2, dilation=2, groups=4)
        self.norm, self.act, self.inplace = nn.BatchNorm2d(4), nn.ReLU(), nn.ReLU(inplace=True)
        self.average = nn.AvgPool2d(2, divisor_override=1)
        self._run = run

    def forward(self, x: Tensor) -> Tensor:
        return self._run(self, x).mean((2, 3))


def _in_place(m: _Odd, x: Tensor) -> Tensor:
    y = m.norm(m.a(x))
    return m.c(m.b(m.inplace(y)) + y)  # type: ignore[no-any-return]


def _functional_in_place(m: _Odd, x: Tensor) -> Tensor:
    y = m.norm(m.a(x))
    return m.wide(torch.cat([F.relu(y, inplace=True), y], 1))  # type: ignore[no-any-return]


def _sum_in_place(m: _Odd, x: Tensor) -> Tensor:
    y = m.norm(m.a(x))
    y.add_(m.b(m.c(y)))
    return m.c(y)  # type: ignore[no-any-return]


def _squeeze_excite(m: _Odd, x: Tensor) -> Tensor:
    y = m.norm(m.a(x))
    return m.wide(torch.cat([y, y], 1)) * torch.sigmoid(m.c(y.mean((2, 3), keepdim=True)))  # type: ignore[no-any-return]


def _twice(m: _Odd, x: Tensor) -> Tensor:
    y = m.norm(m.a(x))
    return m.c(m.act(y + y)) - y * y.size(2)  # type: ignore[no-any-return]


def _viewed(m: _Odd, x: Tensor) -> Tensor:
    y: Tensor = m.c(m.norm(m.a(x)))
    return y.view(y.size(0), -1)[:, :, None, None]


ODD: dict[str, Callable[[_Odd, Tensor], Tensor]] = {
    "a layer that runs twice": lambda m, x: m.c(m.act(m.b(m.b(m.a(x))))),
    "an activation that runs twice": lambda m, x: m.c(m.act(m.b(m.act(m.norm(m.a(x)))))),
    "a change in place that others see": _in_place,
    "a functional change in place": _functional_in_place,
    "a sum in place": _sum_in_place,
    "x + x, a difference, a size": _twice,
    "times a number": lambda m, x: m.c(m.norm(m.a(x)) * 2.0),
    "chunks": lambda m, x: m.c(torch.cat(m.norm(m.a(x)).chunk(2, 1), 1)),
    "an average with another divisor": lambda m, x: m.c(m.average(m.norm(m.a(x)))),
    "a dilated grouped convolution": lambda m, x: m.wide(m.grouped(m.act(m.norm(m.a(x))))),
    "squeeze and excitation": _squeeze_excite,
    "fewer channels": lambda m, x: m.b(F.pad(m.grouped(m.norm(m.a(x))), (0, 0, 0, 0, 0, -4))),
    "a view": _viewed,
    "a flattening by keyword": lambda m, x: m.c(m.norm(m.a(x))).flatten(start_dim=1)[:, :, None, None],
    "concatenation along an axis": lambda m, x: m.wide(torch.cat((m.norm(m.a(x)), m.c(m.a(x))), axis=1)),  # type: ignore[call-arg]
    "dropout": lambda m, x: m.c(F.dropout(m.norm(m.a(x)), 0.5, m.training)),
}


@pytest.mark.parametrize("name", ODD)
@pytest.mark.parametrize("mode", ["dead channels", "dead in one domain", "sparse"])
def test_odd_networks_shrink_exactly(name: str, mode: str) -> None:
    net = _tiny(_Odd(ODD[name])).train()
    draw_tiny(net, mode, torch.Generator().manual_seed(len(name)))
    modes = [module.training for module in net.network.modules()]
    small = shrink(net, plan_pruning(net))
    assert [module.training for module in net.network.modules()] == modes
    _assert_same_logits(net.eval(), small)


class _Followed(nn.Module):
    """Two convolutions with something between them."""

    def __init__(self, between: Callable[[Tensor], Tensor], width: int) -> None:
        super().__init__()
        self.first, self.second = nn.Conv2d(3, 4, 3, padding=1), nn.Conv2d(width, 4, 3)
        self._between = between

    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = self.second(self._between(self.first(x)))
        return y.view(y.size(0), -1)


@pytest.mark.parametrize(
    ("between", "width"),
    [
        (lambda y: y * 2.0 + 1, 4),
        (lambda y: torch.cat((y, y.relu()), axis=1), 8),  # type: ignore[call-arg]
        (lambda y: torch.cat(tensors=(y, y.relu()), dim=1), 8),
    ],
)
def test_numbers_axes_and_views_are_followed(between: Callable[[Tensor], Tensor], width: int) -> None:
    net = _tiny(_Followed(between, width))
    assert net.switches is not None
    with torch.no_grad():
        views = net.switches.layout.views(net.switches.scores_DM)
        views["first"][:, 1:3] = -1
        views["second"][:, 3] = -1
    plan = plan_pruning(net)
    assert [layer.outputs for layer in plan.layers] == [(0, 3), (0, 1, 2)]
    assert [layer.held for layer in plan.layers] == [0, 0]
    _assert_same_logits(net, shrink(net, plan))


@pytest.mark.parametrize("method", sorted(name for name, method in METHODS.items() if not method.packable))
def test_methods_that_change_more_than_switches_and_norms_are_refused(method: str) -> None:
    net = adapt(_backbone("wrn14_2"), CLASSES, method)
    with pytest.raises(BackboneError, match="changes more, or it has been shrunk already"):
        plan_pruning(net)


def test_a_plan_of_other_masks_and_a_second_shrinking_are_refused() -> None:
    net = masked_network(_backbone("wrn14_2"), CLASSES, ["dead channels"], 5)
    plan = plan_pruning(net)
    small = shrink(net, plan)
    with pytest.raises(BackboneError, match="it has been shrunk already"):
        plan_pruning(small)
    assert net.switches is not None
    with torch.no_grad():
        net.switches.scores_DM.fill_(1.0)
    with pytest.raises(BackboneError, match="of other masks"):
        shrink(net, plan)


def _changed(plan: PrunePlan, change: str) -> PrunePlan:
    name, kept = next((name, kept) for name, kept in plan.channels.items() if len(kept) > 3)
    return {
        "reversed": lambda: replace(plan, channels=plan.channels | {name: kept[::-1]}),
        "out of range": lambda: replace(plan, channels=plan.channels | {name: (*kept, 9999)}),
        "twice": lambda: replace(plan, channels=plan.channels | {name: (*kept, kept[-1])}),
        "one more": lambda: replace(plan, channels=plan.channels | {name: tuple(range(len(kept) + 1))}),
        "fewer features": lambda: replace(plan, features=plan.features[:-1]),
        "no layers": lambda: replace(plan, layers=()),
    }[change]()


@pytest.mark.parametrize("change", ["reversed", "out of range", "twice", "one more", "fewer features", "no layers"])
def test_a_plan_that_was_changed_is_refused(change: str) -> None:
    net = masked_network(_backbone("wrn14_2"), CLASSES, ["dead channels"])
    with pytest.raises(BackboneError, match="or was changed"):
        shrink(net, _changed(plan_pruning(net), change))


@pytest.mark.parametrize("left", [0, 2])
def test_a_depthwise_convolution_may_keep_a_single_channel(left: int) -> None:
    network = nn.Sequential(
        nn.Conv2d(3, 4, 1),
        nn.Conv2d(4, 4, 3, groups=4),
        nn.BatchNorm2d(4),
        nn.Conv2d(4, 5, 1),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
    )
    net = _tiny(network)
    assert net.switches is not None
    with torch.no_grad():
        view = net.switches.layout.views(net.switches.scores_DM)["1"]
        view[:] = -1
        view[:, left] = 1
    plan = plan_pruning(net)
    assert plan.layers[1].outputs == (left,)
    _assert_same_logits(net, shrink(net, plan))
