"""A packed model gives the masked network's logits, whatever the masks."""

from pathlib import Path
from typing import cast

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from prunus.arrays import DType
from prunus.backbone.zoo import Backbone, load_backbone
from prunus.bundle.bundle import Bundle
from prunus.bundle.file import bundle_bytes, read_bundle, write_bundle
from prunus.bundle.manifest import DomainEntry
from prunus.config import BackboneChoice, Settings
from prunus.errors import BundleError
from prunus.graph.cut import cut
from prunus.lowering.build import build_graph
from prunus.lowering.pack import pack
from prunus.masks.layout import convolutions
from prunus.masks.network import MultiDomainNet
from prunus.masks.pool import PooledSwitches
from prunus.measure.bundle_cost import bundle_costs
from prunus.methods.costs import network_costs
from prunus.methods.table import METHODS, adapt
from prunus.runtime.numpy_engine import NumpyEngine
from tests.makers.masked_networks import switch_masks
from tests.makers.odd_networks import mean, odd_net
from tests.makers.slow_cases import slow_after_first

CLASSES = {"a": ("x", "y"), "b": ("x", "y", "z")}
NETWORKS = {"wrn14_2": 32, "wrn28_4": 64, "timm/resnet18": 64, "timm/mobilenetv2_100": 64}


def _backbone(name: str) -> Backbone:
    weights = "random" if name.startswith("timm/") else "pretrained"
    return load_backbone(BackboneChoice(name=name, weights=weights, size=NETWORKS[name]))


def _random_net(
    backbone: Backbone,
    seed: int,
    density: float,
    method: str = "union",
    layer_off: bool = True,
    options: Settings | None = None,
) -> MultiDomainNet:
    net = adapt(backbone, CLASSES, method, options=options)
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for parameter in net.parameters():
            if parameter.requires_grad:
                parameter.add_(torch.randn(parameter.shape, generator=generator) * 0.05)
        if net.switches:
            scores = net.switches.scores_DM
            scores.copy_(torch.rand(scores.shape, generator=generator) - (1 - density))
            layer = net.switches.layout.convs[1]
            if layer_off:
                net.switches.layout.views(scores)[layer.name].fill_(-1.0)  # in every domain
        for domain in CLASSES:  # running statistics that differ from the backbone's
            size = backbone.preprocess.size
            net.train()(torch.randn(4, 3, size, size, generator=generator), domain)
    return net.eval()


@pytest.mark.parametrize("weights", ["trained", "frozen"])
@pytest.mark.parametrize("granularity", ["kernel", "1x4", "filter", "input_channel"])
def test_the_file_predicts_the_logits_of_a_pool_with_trained_kernels(
    granularity: str, weights: str, tmp_path: Path
) -> None:
    backbone = _backbone("wrn14_2")
    options = METHODS["exact"].options.model_validate({"granularity": granularity, "weights": weights})
    net = _random_net(backbone, seed=3, density=0.6, method="exact", layer_off=False, options=options)
    assert isinstance(net.switches, PooledSwitches)
    drawn = torch.rand(net.switches.open_DM.shape, generator=torch.Generator().manual_seed(1))
    net.switches.restrict(drawn < 0.8, drawn < 0.3)
    write_bundle(tmp_path / "m.prunus", _pack(net, backbone))
    bundle = read_bundle(tmp_path / "m.prunus")
    images = torch.randn(3, 3, 32, 32, generator=torch.Generator().manual_seed(0))
    masks = switch_masks(net)
    for domain in CLASSES:
        with torch.no_grad():
            expected = net(images, domain).numpy()
        logits = NumpyEngine(bundle).logits(images.numpy(), domain)
        assert np.abs(logits - expected).max() <= 1e-5 * max(1.0, float(np.abs(expected).max()))
    assert sum(len(bundle.arrays[f"kernels/{layer}"]) for layer in masks) <= sum(
        int(mask.any(axis=0).sum()) for mask in masks.values()
    )


def _pack(net: MultiDomainNet, backbone: Backbone) -> Bundle:
    entries = {name: DomainEntry(classes=names, preprocess=backbone.preprocess) for name, names in CLASSES.items()}
    return pack(net, backbone, entries, {"recipe": {}})


@pytest.mark.parametrize("method", ["union", "bn", "feature"])
@pytest.mark.parametrize("name", slow_after_first(NETWORKS))
def test_the_file_predicts_the_masked_networks_logits(name: str, method: str, tmp_path: Path) -> None:
    backbone = _backbone(name)
    net = _random_net(backbone, seed=3, density=0.6, method=method)
    write_bundle(tmp_path / "m.prunus", _pack(net, backbone))
    engine = NumpyEngine(read_bundle(tmp_path / "m.prunus"))
    images = torch.randn(3, 3, NETWORKS[name], NETWORKS[name], generator=torch.Generator().manual_seed(0))
    for domain in ["a", "b", "a"]:
        with torch.no_grad():
            expected = net(images, domain).numpy()
        logits = engine.logits(images.numpy(), domain)
        assert np.isfinite(expected).all()
        assert np.abs(logits - expected).max() <= 1e-5 * max(1.0, float(np.abs(expected).max()))


@settings(max_examples=4)
@given(seed=st.integers(0, 2**31), density=st.sampled_from([0.5, 1.0]))
def test_with_every_channel_in_use_a_bundle_keeps_exactly_the_union_and_every_mask(seed: int, density: float) -> None:
    backbone = _backbone("wrn14_2")
    net = _random_net(backbone, seed, density, layer_off=False)
    bundle = _pack(net, backbone)
    for layer, masks in switch_masks(net).items():
        assert np.array_equal(bundle.union(layer), masks.any(axis=0))
        assert len(bundle.arrays[f"kernels/{layer}"]) == masks.any(axis=0).sum()
        weight = net.network.state_dict()[f"{layer}.weight"].numpy()
        for domain, mask in zip(CLASSES, masks, strict=True):
            assert np.array_equal(bundle.mask(domain, layer), mask)
            assert np.array_equal(bundle.weight(layer, mask), weight * mask[:, :, None, None])


def test_kernels_that_nobody_reads_are_gone_and_costs_are_relative_to_the_whole_network() -> None:
    backbone = _backbone("wrn14_2")
    net = _random_net(backbone, 1, 0.1)
    bundle, whole = _pack(net, backbone), network_costs(net, backbone.probe)
    costs = bundle_costs(bundle, has_switches=True)
    small = cut(build_graph(net))
    dense = {conv.name: conv.num_kernels for conv in convolutions(net.network)}
    for layer, conv in bundle.manifest.convs.items():
        assert (conv.out_channels, conv.in_channels) == small.masks[layer].shape[1:]
        assert np.array_equal(bundle.union(layer), small.masks[layer].any(axis=0))
        assert (conv.dense_kernels, conv.positions) == (dense[layer], backbone.probe.positions[layer])
    assert costs.dense_macs() == whole.dense_macs()
    assert costs.num_kernels() == whole.num_kernels()
    assert costs.union() < whole.union()
    assert all(costs.usage(domain) < whole.usage(domain) for domain in CLASSES)
    assert all(costs.macs(domain) < whole.macs(domain) for domain in CLASSES)
    assert costs.params_ratio() < whole.params_ratio()
    assert costs.own[0].bits == whole.own[0].bits


@pytest.mark.parametrize("granularity", ["1x4", "filter", "input_channel"])
def test_a_file_counts_as_many_switches_as_its_run(granularity: str) -> None:
    backbone = _backbone("wrn14_2")
    options = METHODS["union"].options.model_validate({"granularity": granularity})
    net = adapt(backbone, CLASSES, "union", options=options).eval()
    costs = bundle_costs(_pack(net, backbone), has_switches=True, granularity=granularity)
    assert costs.params_ratio() == network_costs(net, backbone.probe).params_ratio()


def test_a_file_read_back_is_the_bundle_that_was_written_and_the_same_bytes(tmp_path: Path) -> None:
    backbone = _backbone("wrn14_2")
    bundle = _pack(_random_net(backbone, 1, 0.3), backbone)
    write_bundle(tmp_path / "m.prunus", bundle)
    again = read_bundle(tmp_path / "m.prunus")
    assert again.manifest == bundle.manifest
    assert all(np.array_equal(again.arrays[name], array) for name, array in bundle.arrays.items())
    assert bundle_bytes(again) == (tmp_path / "m.prunus").read_bytes() == bundle_bytes(bundle)


@pytest.mark.slow
@pytest.mark.parametrize(("dtype", "width"), [("float32", 4), ("float16", 2), ("bfloat16", 2)])
@pytest.mark.parametrize("density", [0.02, 0.2, 1.0])
def test_the_file_holds_little_more_than_the_union_weights_bits_norms_and_heads(
    density: float, dtype: DType, width: int
) -> None:
    backbone = _backbone("wrn28_4")
    net = _random_net(backbone, 1, density)
    masks = switch_masks(net)
    kept = {layer: int(mask.any(axis=0).sum()) for layer, mask in masks.items()}
    bound = sum(
        9 * width * count + min(-(-mask[0].size // 8), 1 + 2 * count)
        for count, mask in zip(kept.values(), masks.values(), strict=True)
    )
    bound += len(CLASSES) * sum(-(-count // 8) for count in kept.values())
    channels = sum(
        t.numel()
        for name, t in net.network.named_parameters()
        if name.endswith(("norm.bias", "norm1.bias", "norm2.bias"))
    )
    bound += len(CLASSES) * 2 * 4 * channels
    bound += width * sum(len(names) * (backbone.probe.num_features + 1) for names in CLASSES.values())
    bundle = _pack(net, backbone)
    bound += sum(array.nbytes for name, array in bundle.arrays.items() if name.endswith(".ones"))  # removed constants
    size = len(bundle_bytes(bundle, dtype))
    assert size < 1.02 * bound + 6000  # of names and shapes, whatever the size
    assert size < 0.7 * net.dense_bytes() or density == 1.0


@pytest.mark.parametrize("density", [0.25, 0.5])
def test_a_file_of_five_domains_is_at_most_two_percent_larger_than_what_it_cannot_do_without(density: float) -> None:
    backbone, names = _backbone("wrn28_4"), tuple("abcde")
    classes = {name: tuple(f"class {number}" for number in range(10)) for name in names}
    net = adapt(backbone, classes, "union").eval()
    assert net.switches is not None
    generator = torch.Generator().manual_seed(0)
    with torch.no_grad():
        common = torch.rand(net.switches.scores_DM.shape[1], generator=generator)  # domains that share most kernels
        for scores_M in net.switches.scores_DM:
            scores_M.copy_(common + 0.1 * torch.rand(common.shape, generator=generator) - (1.05 - density))
        for name, tensor in net.named_parameters():
            if tensor.requires_grad and "scores" not in name:
                tensor.add_(torch.randn(tensor.shape, generator=generator) * 0.05)
    entries = {name: DomainEntry(classes=labels, preprocess=backbone.preprocess) for name, labels in classes.items()}
    bundle = pack(net, backbone, entries, {"recipe": {}})
    union = {layer: mask.any(axis=0) for layer, mask in switch_masks(net).items()}
    kept = [int(mask.sum()) for mask in union.values()]
    index = sum(min(-(-mask.size // 8), 1 + 2 * int(mask.sum())) for mask in union.values())
    norms = sum(2 * 4 * module.num_features for module in net.network.modules() if isinstance(module, nn.BatchNorm2d))
    labels = sum(len(text) for group in (names, union, *classes.values()) for text in group)
    for dtype, width in (("float32", 4), ("float16", 2)):
        bound = sum(9 * width * count for count in kept) + index + sum(-(-5 * count // 8) for count in kept)
        bound += 5 * norms + 5 * width * 10 * (backbone.probe.num_features + 1) + labels
        size = len(bundle_bytes(bundle, cast("DType", dtype)))
        assert 0.98 * bound < size <= 1.02 * bound
        assert size < net.dense_bytes()


def test_half_precision_changes_logits_by_little(tmp_path: Path) -> None:
    backbone = _backbone("wrn14_2")
    net = _random_net(backbone, 3, 0.5)
    images = torch.randn(3, 3, 32, 32, generator=torch.Generator().manual_seed(0))
    with torch.no_grad():
        expected = net(images, "b").numpy()
    for dtype, allowed in (("float16", 5e-3), ("bfloat16", 5e-2)):
        write_bundle(tmp_path / "m.prunus", _pack(net, backbone), cast("DType", dtype))
        logits = NumpyEngine(read_bundle(tmp_path / "m.prunus")).logits(images.numpy(), "b")
        assert 0 < np.abs(logits - expected).max() <= allowed * np.abs(expected).max()


def test_tensors_that_all_domains_share_are_kept_once_and_neutral_ones_not_at_all() -> None:
    backbone, net = odd_net(lambda m, x: mean(m.act(m.norm(m.a(x)))))
    names = {name for name in _pack(net, backbone).arrays if name.startswith(("norm", "shared"))}
    assert names == {"shared/0.scale", "shared/0.bias"}
    with torch.no_grad():
        net.tensors("b")["norm.bias"].add_(1)
    names = {name for name in _pack(net, backbone).arrays if name.startswith(("norm", "shared"))}
    assert names == {"shared/0.scale", "norm/a/0.bias", "norm/b/0.bias"}


@pytest.mark.parametrize("method", sorted(name for name, method in METHODS.items() if not method.packable))
def test_methods_that_learn_more_than_switches_and_norms_are_refused(method: str) -> None:
    backbone = _backbone("wrn14_2")
    with pytest.raises(BundleError, match="this run's method learns more than that"):
        _pack(adapt(backbone, CLASSES, method), backbone)


@pytest.mark.parametrize("method", sorted(name for name, method in METHODS.items() if method.packable))
def test_methods_that_say_so_can_be_packed(method: str) -> None:
    backbone = _backbone("wrn14_2")
    assert _pack(adapt(backbone, CLASSES, method).eval(), backbone).domains == ("a", "b")
