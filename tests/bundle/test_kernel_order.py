"""Kernels lie in a file in the order in which runtimes read them, and come back by output and input."""

import numpy as np
import pytest

from prunus.bundle.bundle import Bundle
from prunus.bundle.coding.bits import pack_bits, unpack_bits
from prunus.bundle.kernel_order import from_stored, to_stored
from prunus.bundle.manifest import ConvEntry, DomainEntry, Manifest
from prunus.graph.operations import Conv
from prunus.images import Preprocess


def _entry(out: int, in_group: int, groups: int, kernel: tuple[int, int]) -> ConvEntry:
    return ConvEntry(out, in_group, groups, kernel, positions=1, dense_kernels=out * in_group)


@pytest.mark.parametrize(
    ("entry", "order"),
    [
        (_entry(2, 3, 1, (1, 1)), [0, 1, 2, 3, 4, 5]),
        (_entry(2, 3, 1, (3, 3)), [0, 3, 1, 4, 2, 5]),
        (_entry(4, 2, 2, (1, 1)), [0, 1, 2, 3, 4, 5, 6, 7]),
        (_entry(4, 2, 2, (1, 3)), [0, 2, 1, 3, 4, 6, 5, 7]),  # by group, then input, then output
    ],
)
def test_larger_kernels_go_by_input_and_single_pixels_by_output(entry: ConvEntry, order: list[int]) -> None:
    numbers_OI = np.arange(entry.num_kernels).reshape(entry.out_channels, entry.in_channels)
    assert to_stored(numbers_OI, entry).tolist() == order
    assert np.array_equal(from_stored(to_stored(numbers_OI, entry), entry), numbers_OI)
    deep = np.random.default_rng(0).random((entry.out_channels, entry.in_channels, 3, 2))
    assert np.array_equal(from_stored(to_stored(deep, entry), entry), deep)


def test_a_bundle_gives_masks_and_weights_in_both_orders() -> None:
    preprocess = Preprocess(size=4, resize=4, mean=(0, 0, 0), std=(1, 1, 1))
    conv = Conv(op="conv", inputs=(0,), layer="c", channels=(2, 3), kernel=(3, 3))
    manifest = Manifest(
        backbone="x",
        image_size=4,
        graph=(conv,),
        domains={"a": DomainEntry(classes=("y",), preprocess=preprocess)},
        dense_bytes=0,
        provenance={},
    )
    kept = np.array([[True, False, True], [True, True, False]])  # in the file: 00, 10, 11, 02
    mask = np.array([[True, False, False], [False, True, False]])
    weight = np.random.default_rng(0).random((2, 3, 3, 3)).astype(np.float32) * kept[:, :, None, None]
    entry = manifest.convs["c"]
    bits = to_stored(kept, entry)
    arrays = {
        "union/c": pack_bits(bits),
        "kernels/c": to_stored(weight, entry)[bits],
        "mask/a/c": pack_bits(np.array([True, False, True, False])),
    }
    bundle = Bundle(manifest, arrays)
    assert np.array_equal(bundle.union("c"), kept)
    assert np.array_equal(bundle.mask("a", "c"), mask)
    assert np.array_equal(bundle.layer_masks()["c"], mask[None])
    assert np.array_equal(bundle.weight("c", kept), weight)
    assert np.array_equal(bundle.weight("c", mask), weight * mask[:, :, None, None])
    packed, kernels = bundle.stored("c")
    assert unpack_bits(packed, 6).tolist() == bundle.kept("c").tolist() == [True, True, False, True, True, False]
    assert np.array_equal(kernels, np.stack([weight[0, 0], weight[1, 0], weight[1, 1], weight[0, 2]]))
    assert unpack_bits(bundle.packed_mask("a", "c"), 4).tolist() == [True, False, True, False]
