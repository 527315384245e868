"""The costs of a model file, counted from its packed masks."""

import numpy as np

from prunus.arrays import Array
from prunus.bundle.bundle import Bundle
from prunus.bundle.coding.bits import pack_bits
from prunus.bundle.manifest import DomainEntry, Manifest
from prunus.graph.operations import Conv
from prunus.images import Preprocess
from prunus.measure.bundle_cost import bundle_costs
from prunus.measure.cost import count_layer
from tests.makers.graph_bundles import random_bundle, varied_graph


def test_costs_are_relative_to_the_network_before_pruning() -> None:
    conv = Conv(op="conv", inputs=(0,), layer="c", channels=(2, 3), was=(4, 6), kernel=(2, 2))
    preprocess = Preprocess(size=4, resize=4, mean=(0, 0, 0), std=(1, 1, 1))
    manifest = Manifest(
        backbone="odd",
        image_size=4,
        graph=(conv,),
        domains={"a": DomainEntry(classes=("x",), preprocess=preprocess)},
        dense_bytes=1,
        provenance={},
    )
    arrays: dict[str, Array] = {
        "union/c": pack_bits(np.array([True, True, False, True, False, False])),
        "kernels/c": np.ones((3, 2, 2), np.float32),
        "mask/a/c": pack_bits(np.array([True, True, True])),
        "norm/a/0.bias": np.ones(2, np.float32),
        "head/a/weight": np.ones((1, 18), np.float32),
        "head/a/bias": np.ones(1, np.float32),
    }
    costs = bundle_costs(Bundle(manifest, arrays), has_switches=True)
    assert (costs.usage("a"), costs.union()) == (3 / 24, 3 / 24)
    assert (costs.macs("a"), costs.dense_macs()) == (3 * 4 * 9, 24 * 4 * 9)
    assert costs.params_bits() == 32 * 3 * 4 + 24
    assert costs.dense_bits() == 32 * 24 * 4
    assert costs.own[0].side_bits == 32 * (2 + 18 + 1)
    assert bundle_costs(Bundle(manifest, arrays), True, "filter").params_bits() == 32 * 3 * 4 + 4
    assert bundle_costs(Bundle(manifest, arrays), True, "input_channel").params_bits() == 32 * 3 * 4 + 6
    without = bundle_costs(Bundle(manifest, arrays), has_switches=False)
    assert without.params_bits() == 32 * 3 * 4
    assert without.stored_bytes() == 4 * (3 * 4 + 2 + 18 + 1)


def test_packed_masks_count_as_unpacked_ones_do() -> None:
    bundle = random_bundle(varied_graph(3), 12, ("a", "b", "c"), density=0.5, seed=3)
    costs = bundle_costs(bundle)
    masks = bundle.layer_masks()
    assert [layer.name for layer in costs.layers] == list(masks)
    for layer in costs.layers:
        expected = count_layer(layer.name, masks[layer.name], layer.kernel_area, layer.positions)
        assert (layer.used, layer.union, layer.intersection) == (expected.used, expected.union, expected.intersection)
        assert layer.weights_read == expected.weights_read == layer.union * layer.kernel_area
        conv = bundle.manifest.convs[layer.name]
        assert (layer.kernel_area, layer.positions) == (conv.kernel[0] * conv.kernel[1], conv.positions)


def test_layer_usage_is_relative_to_the_layer_before_pruning() -> None:
    bundle = random_bundle(varied_graph(1), 12, ("a", "b"), density=0.5, seed=1)
    costs = bundle_costs(bundle)
    for layer in costs.layers:
        used = {domain: int(bundle.mask(domain, layer.name).sum()) for domain in bundle.domains}
        dense = bundle.manifest.convs[layer.name].dense_kernels
        assert costs.layer_usage(layer) == {domain: count / dense for domain, count in used.items()}
