"""Damaged, foreign and contradictory model files are refused with a reason."""

import json
import tracemalloc
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors import safe_open
from safetensors.numpy import load, save

from prunus.bundle.bits import pack_bits, unpack_bits
from prunus.bundle.bundle import Array, Bundle
from prunus.bundle.dtypes import DType, decode, encode
from prunus.bundle.file import read_bundle, write_bundle
from prunus.bundle.header import FORMAT_VERSION, checksum
from prunus.bundle.index import Code, decode_index, encode_index
from prunus.bundle.manifest import ConvEntry, DomainEntry, Manifest
from prunus.errors import BundleError, UnknownNameError
from prunus.images import Preprocess

PREPROCESS = Preprocess(size=8, resize=9, mean=(0, 0, 0), std=(1, 1, 1))


@pytest.fixture
def bundle() -> Bundle:
    """One layer of 2 x 3 kernels, four of them kept, two domains."""
    manifest = Manifest(
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
        "norm/b/x": np.full(2, 2, dtype=np.float32),
        "shared/y": np.full((1, 3), 3, dtype=np.float32),
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


def _header(path: Path) -> dict[str, Any]:
    with safe_open(path, framework="numpy") as file:
        content: dict[str, Any] = json.loads(file.metadata()["prunus"])
    return content


def _write(path: Path, header: dict[str, Any], arrays: dict[str, Array], sealed: bool = True) -> None:
    """Write a file with any header, with a right checksum where the header can be read at all."""
    if sealed:
        digits = checksum(json.dumps(header | {"sha256": ""}), {name: a.tobytes() for name, a in arrays.items()})
        header = header | {"sha256": digits}
    path.write_bytes(save(arrays, {"prunus": json.dumps(header)}))


def test_another_version_is_named(bundle: Bundle, tmp_path: Path) -> None:
    path = tmp_path / "m.prunus"
    write_bundle(path, bundle)
    _write(path, _header(path) | {"format_version": 99}, load(path.read_bytes()))
    with pytest.raises(BundleError, match=f"format version 99, this Prunus reads {FORMAT_VERSION}"):
        read_bundle(path)


@pytest.mark.parametrize("header", ["[]", "{", json.dumps({"format_version": FORMAT_VERSION, "dtype": 3})])
def test_an_unreadable_header_is_refused(tmp_path: Path, header: str) -> None:
    (tmp_path / "m.prunus").write_bytes(save({"a": np.zeros(1)}, {"prunus": header}))
    with pytest.raises(BundleError, match="its header cannot be read"):
        read_bundle(tmp_path / "m.prunus")


@pytest.mark.parametrize("name", ["kernels", "index", "masks", "norms", "heads", "shared"])
def test_a_missing_or_misshapen_part_is_named(bundle: Bundle, tmp_path: Path, name: str) -> None:
    path = tmp_path / "m.prunus"
    write_bundle(path, bundle)
    header, arrays = _header(path), load(path.read_bytes())
    for replaced in (None, np.zeros(77, dtype=arrays[name].dtype), arrays[name].astype(np.float64)):
        changed = {k: v for k, v in arrays.items() if k != name} | ({} if replaced is None else {name: replaced})
        _write(path, header, changed)
        with pytest.raises(BundleError, match=f"part '{name}' should be"):
            read_bundle(path)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"out_channels": 10**6, "in_channels": 10**6}, "a network of 1000000000000 weights"),
        ({"kernel": [10**5, 10**5]}, "weights, where"),
        ({"kernel": [0, 1]}, "a kernel without a size"),
        ({"out_channels": 1}, "more kernels kept than there are"),
        ({"in_channels": 100}, "an index of 1 bytes does not fit 200 kernels"),
        ({"out_channels": 1, "in_channels": 4}, "bits behind its last kernel"),
    ],
)
def test_a_layer_that_cannot_be_is_refused_before_memory_is_taken(
    bundle: Bundle, tmp_path: Path, change: dict[str, Any], message: str
) -> None:
    path = tmp_path / "m.prunus"
    write_bundle(path, bundle)
    header, arrays = _header(path), load(path.read_bytes())
    header["manifest"]["convs"]["conv"] |= change
    _write(path, header, arrays)
    tracemalloc.start()
    with pytest.raises(BundleError, match=message):
        read_bundle(path)
    assert tracemalloc.get_traced_memory()[1] < 10e6
    tracemalloc.stop()


def test_every_flipped_bit_is_noticed(bundle: Bundle, tmp_path: Path) -> None:
    path = tmp_path / "m.prunus"
    write_bundle(path, bundle)
    content, whole = path.read_bytes(), read_bundle(path)
    for place in range(len(content)):
        path.write_bytes(content[:place] + bytes([content[place] ^ 1 << place % 8]) + content[place + 1 :])
        try:
            found = read_bundle(path)
        except BundleError:
            continue
        assert found.manifest == whole.manifest  # nothing that matters: the order of keys, say
        assert all(np.array_equal(found.arrays[name], array) for name, array in whole.arrays.items())


@settings(max_examples=200)
@given(seed=st.integers(0, 2**31), count=st.integers(1, 3000), density=st.sampled_from([0, 0.001, 0.05, 0.5, 0.99, 1]))
def test_an_index_comes_back_from_the_cheaper_of_its_codes(seed: int, count: int, density: float) -> None:
    rng = np.random.default_rng(seed)
    kept = rng.random(count) < density
    if rng.random() < 0.3:
        kept = np.sort(kept)
    code, stored = encode_index(kept)
    assert np.array_equal(decode_index(code, stored, count), kept)
    assert stored.size <= -(-count // 8)
    if density in (0, 1) and count > 200:
        assert (code, stored.size <= 4) == ("runs", True)


@pytest.mark.parametrize(
    ("code", "stored", "message"),
    [
        ("bits", [255], "bits behind its last kernel"),
        ("bits", [1, 1], "does not fit"),
        ("runs", [5], "add up to 5"),
        ("runs", [128], "in the middle of a number"),
        ("runs", [255] * 12, "longer than its 6 kernels"),
        ("runs", [3, 3, 3], "add up to 9"),
        ("runs", [0, 3, 0, 3], "an empty run"),
    ],
)
def test_an_index_that_does_not_add_up_is_refused(code: Code, stored: list[int], message: str) -> None:
    with pytest.raises(BundleError, match=message):
        decode_index(code, np.array(stored, dtype=np.uint8), 6)


@given(st.lists(st.floats(-60000, 60000, width=32), min_size=1, max_size=40))
def test_numbers_are_rounded_to_the_nearest(values: list[float]) -> None:
    array = np.array(values, dtype=np.float32)
    theirs = {"float16": torch.float16, "bfloat16": torch.bfloat16, "float32": torch.float32}
    for dtype, kind in theirs.items():
        found = decode(encode(array, cast("DType", dtype)), cast("DType", dtype))
        assert found.tolist() == torch.from_numpy(array).to(kind).float().tolist()


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
def test_a_file_is_the_same_bytes_every_time_in_every_precision(bundle: Bundle, tmp_path: Path, dtype: DType) -> None:
    write_bundle(tmp_path / "a", bundle, dtype)
    again = read_bundle(tmp_path / "a")
    write_bundle(tmp_path / "b", again, dtype)
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()
    assert all(
        np.array_equal(again.arrays[name], array) for name, array in bundle.arrays.items()
    )  # small whole numbers
    with pytest.raises(UnknownNameError, match="unknown dtype 'float8'"):
        write_bundle(tmp_path / "c", bundle, cast("DType", "float8"))
