"""Damaged, foreign and contradictory model files are refused with a reason."""

import json
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import load, save

from prunus.bundle.bits import pack_bits, unpack_bits
from prunus.bundle.bundle import Array, Bundle
from prunus.bundle.file import read_bundle, write_bundle
from prunus.bundle.manifest import FORMAT_VERSION, ConvEntry, DomainEntry, Manifest
from prunus.errors import BundleError, UnknownNameError
from prunus.images import Preprocess

PREPROCESS = Preprocess(size=8, resize=9, mean=(0, 0, 0), std=(1, 1, 1))


@pytest.fixture
def bundle() -> Bundle:
    """One layer of 2 x 3 kernels, four of them kept, two domains."""
    manifest = Manifest(
        format_version=FORMAT_VERSION,
        backbone="wrn14_2",
        num_features=4,
        domains={
            "a": DomainEntry(classes=("x", "y"), preprocess=PREPROCESS),
            "b": DomainEntry(classes=("x", "y", "z"), preprocess=PREPROCESS),
        },
        convs={"conv": ConvEntry(out_channels=2, in_channels=3, kernel=(1, 1), positions=4)},
        dense_bytes=24,
        provenance={},
    )
    union = np.array([[True, False, True], [True, True, False]])
    arrays: dict[str, Array] = {
        "union/conv": pack_bits(union),
        "kernels/conv": np.arange(1, 5, dtype=np.float32).reshape(4, 1, 1),
        "mask/a/conv": pack_bits(np.array([True, False, True, True])),
        "mask/b/conv": pack_bits(np.array([True, True, False, False])),
        "head/a/weight": np.zeros((2, 4), dtype=np.float32),
        "head/b/weight": np.zeros((3, 4), dtype=np.float32),
        "norm/a/x": np.ones(2, dtype=np.float32),
        "head/a/bias": np.zeros(2, dtype=np.float32),
        "head/b/bias": np.zeros(3, dtype=np.float32),
    }
    return Bundle(manifest, arrays)


def test_masks_and_weights_lie_where_the_union_says(bundle: Bundle) -> None:
    assert bundle.mask("a", "conv").tolist() == [[True, False, False], [True, True, False]]
    assert bundle.weight("conv", bundle.mask("b", "conv"))[:, :, 0, 0].tolist() == [[1, 0, 2], [0, 0, 0]]
    assert bundle.layer_masks()["conv"].shape == (2, 2, 3)
    with pytest.raises(UnknownNameError, match="unknown domain 'c'"):
        bundle.check_domain("c")


def test_bits_come_back_in_order() -> None:
    mask = np.array([True, False, False, True, True, False, True, False, True, True])
    assert pack_bits(mask).tolist() == [0b01011001, 0b11]
    assert unpack_bits(pack_bits(mask), 10).tolist() == mask.tolist()


@pytest.mark.parametrize("keep", [0, 4, 8, 100, -1])
def test_a_truncated_file_is_refused(bundle: Bundle, tmp_path: Path, keep: int) -> None:
    path = tmp_path / "m.prunus"
    write_bundle(path, bundle)
    path.write_bytes(path.read_bytes()[:keep])
    with pytest.raises(BundleError, match="damaged or not a Prunus model"):
        read_bundle(path)


def test_foreign_files_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "m.prunus"
    path.write_text("hello")
    with pytest.raises(BundleError, match="damaged or not a Prunus model"):
        read_bundle(path)
    path.write_bytes(save({"a": np.zeros(1)}))
    with pytest.raises(BundleError, match="not a Prunus model"):
        read_bundle(path)
    with pytest.raises(BundleError, match="is a folder"):
        read_bundle(tmp_path)
    with pytest.raises(BundleError, match="there is no model file"):
        read_bundle(tmp_path / "none")


def test_another_version_is_named(bundle: Bundle, tmp_path: Path) -> None:
    newer = Bundle(bundle.manifest.model_copy(update={"format_version": 99}), bundle.arrays)
    write_bundle(tmp_path / "m.prunus", newer)
    with pytest.raises(BundleError, match=f"format version 99, this Prunus reads {FORMAT_VERSION}"):
        read_bundle(tmp_path / "m.prunus")


@pytest.mark.parametrize("manifest", ["[]", "{", json.dumps({"format_version": FORMAT_VERSION, "backbone": 3})])
def test_an_unreadable_manifest_is_refused(bundle: Bundle, tmp_path: Path, manifest: str) -> None:
    (tmp_path / "m.prunus").write_bytes(save(bundle.arrays, {"prunus": manifest}))
    with pytest.raises(BundleError, match="its manifest cannot be read"):
        read_bundle(tmp_path / "m.prunus")


@pytest.mark.parametrize("name", ["union/conv", "kernels/conv", "mask/a/conv", "head/b/bias", "head/a/weight"])
def test_a_missing_or_misshapen_array_is_named(bundle: Bundle, tmp_path: Path, name: str) -> None:
    path = tmp_path / "m.prunus"
    write_bundle(path, bundle)
    metadata = {"prunus": bundle.manifest.model_dump_json()}
    arrays = load(path.read_bytes())
    for replaced in (None, np.zeros(77, dtype=arrays[name].dtype), arrays[name].astype(np.float64)):
        changed = {k: v for k, v in arrays.items() if k != name} | ({} if replaced is None else {name: replaced})
        path.write_bytes(save(changed, metadata))
        with pytest.raises(BundleError, match=name):
            read_bundle(path)


def test_numbers_of_another_type_are_named(bundle: Bundle, tmp_path: Path) -> None:
    bundle.arrays["norm/a/x"] = np.ones(2, dtype=np.float64)
    write_bundle(tmp_path / "m.prunus", bundle)
    with pytest.raises(BundleError, match="'norm/a/x' should be float32"):
        read_bundle(tmp_path / "m.prunus")
