"""Damaged, foreign and contradictory model files are refused with a reason."""

import hashlib
import json
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors import safe_open
from safetensors.numpy import load, save

from prunus.arrays import Array
from prunus.bundle.bits import pack_bits, unpack_bits
from prunus.bundle.bundle import Bundle
from prunus.bundle.dtypes import STORED, DType, encode, widened
from prunus.bundle.file import bundle_bytes, bundle_size, read_bundle, write_bundle
from prunus.bundle.header import FORMAT_VERSION
from prunus.bundle.index import Code, decode_index, encode_index
from prunus.bundle.manifest import DomainEntry, Manifest
from prunus.errors import BundleError, UnknownNameError
from prunus.graph.operations import Conv, Mean
from prunus.images import Preprocess
from tests.makers.graph_bundles import random_bundle, varied_graph

PREPROCESS = Preprocess(size=8, resize=9, mean=(0, 0, 0), std=(1, 1, 1))
CONV = Conv(op="conv", inputs=(0,), layer="conv", channels=(2, 3), was=(4, 3), kernel=(1, 1))


@pytest.fixture
def bundle() -> Bundle:
    """One layer of 2 x 3 kernels, four of them kept, two domains."""
    manifest = Manifest(
        backbone="wrn14_2",
        image_size=8,
        graph=(CONV, Mean(op="mean", inputs=(1,))),
        domains={
            "a": DomainEntry(classes=("x", "y"), preprocess=PREPROCESS),
            "b": DomainEntry(classes=("x", "y", "z"), preprocess=PREPROCESS),
        },
        dense_bytes=24,
        provenance={"bytes": [1, 2]},
    )
    union = np.array([[True, False, True], [True, True, False]])
    arrays: dict[str, Array] = {
        "union/conv": pack_bits(union),
        "kernels/conv": np.arange(1, 5, dtype=np.float32).reshape(4, 1, 1),
        "mask/a/conv": pack_bits(np.array([True, False, True, True])),
        "mask/b/conv": pack_bits(np.array([True, True, False, False])),
        "head/a/weight": np.zeros((2, 2), dtype=np.float32),
        "head/b/weight": np.zeros((3, 2), dtype=np.float32),
        "norm/a/0.scale": np.ones(2, dtype=np.float32),
        "norm/b/0.scale": np.full(2, 2, dtype=np.float32),
        "shared/0.ones": np.full((2, 1, 1), 3, dtype=np.float32),
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
    with pytest.raises(BundleError, match="it is a folder"):
        read_bundle(tmp_path)
    with pytest.raises(BundleError, match="there is no model file"):
        read_bundle(tmp_path / "none")


def _header(path: Path) -> dict[str, Any]:
    with safe_open(path, framework="numpy") as file:
        content: dict[str, Any] = json.loads(file.metadata()["prunus"])
    return content


def _write(path: Path, header: dict[str, Any], arrays: dict[str, Array]) -> None:
    """Write a file with any header and a right checksum."""
    data = save(arrays)
    data = data[8 + int.from_bytes(data[:8], "little") :]
    digest = hashlib.sha256(json.dumps(header | {"sha256": ""}).encode() + data)
    path.write_bytes(save(arrays, {"prunus": json.dumps(header | {"sha256": digest.hexdigest()})}))


def _rewrite(path: Path, change: Callable[[dict[str, Any]], object]) -> None:
    """Change the header of a file and seal it again."""
    header = _header(path)
    change(header)
    _write(path, header, load(path.read_bytes()))


def test_a_file_that_is_sealed_again_unchanged_is_read(bundle: Bundle, tmp_path: Path) -> None:
    path = tmp_path / "m.prunus"
    write_bundle(path, bundle)
    _rewrite(path, lambda header: None)
    assert read_bundle(path).manifest == bundle.manifest


def test_another_version_is_named(bundle: Bundle, tmp_path: Path) -> None:
    path = tmp_path / "m.prunus"
    write_bundle(path, bundle)
    for version in (2, 99, None, "x"):
        _rewrite(path, lambda header, version=version: header.update(format_version=version))  # type: ignore[misc]
        with pytest.raises(BundleError, match=f"format version {version!r}, this Prunus reads {FORMAT_VERSION}"):
            read_bundle(path)


@pytest.mark.parametrize(
    ("header", "message"),
    [
        ("[]", "format version None"),
        ("{", "damaged or not a Prunus model"),
        ("[" * 100_000, "damaged or not a Prunus model"),
        (json.dumps({"format_version": FORMAT_VERSION, "dtype": 3}), "its header cannot be read: manifest"),
        ('{"format_version": 3, "format_version": 3}', "a key twice"),
    ],
)
def test_an_unreadable_header_is_refused(tmp_path: Path, header: str, message: str) -> None:
    (tmp_path / "m.prunus").write_bytes(save({"a": np.zeros(1)}, {"prunus": header}))
    with pytest.raises(BundleError, match=message):
        read_bundle(tmp_path / "m.prunus")


@pytest.mark.parametrize("name", ["kernels", "index", "masks", "norms", "heads", "shared"])
def test_a_missing_or_misshapen_part_is_named(bundle: Bundle, tmp_path: Path, name: str) -> None:
    path = tmp_path / "m.prunus"
    write_bundle(path, bundle)
    header, arrays = _header(path), load(path.read_bytes())
    for replaced in (None, np.zeros(77, dtype=arrays[name].dtype), arrays[name].astype(np.float64)):
        changed = {k: v for k, v in arrays.items() if k != name} | ({} if replaced is None else {name: replaced})
        _write(path, header, changed)
        with pytest.raises(BundleError, match=r"its part '\w+' should be"):
            read_bundle(path)


def test_parts_that_overlap_leave_holes_or_change_places_are_refused(bundle: Bundle, tmp_path: Path) -> None:
    path = tmp_path / "m.prunus"
    write_bundle(path, bundle)
    content = path.read_bytes()
    length = int.from_bytes(content[:8], "little")
    container, data = json.loads(content[8 : 8 + length]), content[8 + length :]
    places = {name: entry["data_offsets"] for name, entry in container.items() if name != "__metadata__"}
    begin, end = places["kernels"]
    for name, offsets, rest in (
        ("kernels", [begin, end + 4], data),
        ("kernels", [begin + 1, end + 1], data),
        ("kernels", places["norms"], data),
        ("masks", [-1, 3], data),
        ("masks", [True, 2], data),
        ("masks", "0", data),
        ("masks", places["masks"], data + b"x"),
        ("masks", places["masks"], data[:-1]),
        ("extra", [len(data), len(data)], data),
    ):
        entry = container.get(name, {"dtype": "U8", "shape": [0]}) | {"data_offsets": offsets}
        text = json.dumps(container | {name: entry}).encode()
        path.write_bytes(len(text).to_bytes(8, "little") + text + rest)
        with pytest.raises(BundleError, match=r"its part|bytes of data"):
            read_bundle(path)


def _conv_of(header: dict[str, Any]) -> dict[str, Any]:
    conv: dict[str, Any] = header["manifest"]["graph"][0]
    return conv


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"channels": [2**16, 2**16], "was": None}, "groups of 65536 inputs, but its input has 3"),
        ({"channels": [2**17, 3]}, "less than or equal to 65536"),
        ({"kernel": [10**5, 10**5]}, "less than or equal to 65536"),
        ({"kernel": [0, 1]}, "greater than or equal to 1"),
        ({"kernel": [9, 1]}, "impossible shape"),
        ({"channels": [1, 3]}, "more kernels kept than there are"),
        ({"was": [1, 3]}, "more channels than before it was pruned"),
        ({"inputs": [1]}, "reads a value that is computed after it"),
        ({"op": "affine"}, "its header cannot be read"),
        ({"pads": [2**16] * 4, "stride": [2**16] * 2}, "impossible pads"),
        ({"slope": float("nan")}, "its header cannot be read"),
    ],
)
def test_an_operation_that_cannot_be_is_refused_before_memory_is_taken(
    bundle: Bundle, tmp_path: Path, change: dict[str, Any], message: str
) -> None:
    path = tmp_path / "m.prunus"
    write_bundle(path, bundle)
    _rewrite(path, lambda header: _conv_of(header).update(change))
    tracemalloc.start()
    with pytest.raises(BundleError, match=message):
        read_bundle(path)
    assert tracemalloc.get_traced_memory()[1] < 10e6
    tracemalloc.stop()


def _twice(header: dict[str, Any]) -> None:
    header["manifest"]["graph"].append(_conv_of(header) | {"inputs": [0], "kernel": [3, 3]})


def _many(header: dict[str, Any]) -> None:
    layers = [_conv_of(header) | {"layer": str(each), "channels": [2**16, 3], "was": None} for each in range(2000)]
    means = [{"op": "pool", "kind": "max", "kernel": [8, 8], "stride": [8, 8], "inputs": [0]}]
    header["manifest"]["graph"] = means + [layer | {"inputs": [1]} for layer in layers]
    header.update(index=[["runs", 3, 0]] * len(layers), norms=[], shared=[])


def _nothing_kept(header: dict[str, Any]) -> None:
    """Claim kernels that take no bytes, because none is kept."""
    wide = [{"op": "mean", "inputs": [0]}, {"op": "append_zeros", "inputs": [1], "count": 2**12 - 3}]
    layers = [_conv_of(header) | {"layer": str(each), "channels": [2**10, 2**12], "was": None} for each in range(3)]
    header["manifest"]["graph"] = wide + [layer | {"inputs": [2]} for layer in layers]
    header.update(index=[["runs", 4, 0]] * 3, norms=[], shared=[])


def _copies(header: dict[str, Any], count: int) -> None:
    header["manifest"]["domains"] = {str(each): header["manifest"]["domains"]["a"] for each in range(count)}


def _many_domains(header: dict[str, Any]) -> None:
    """Claim as many arrays as a machine has no room for, each of them empty."""
    _copies(header, 999)
    conv = _conv_of(header) | {"channels": [3, 3], "was": None}
    header["manifest"]["graph"] = [conv | {"layer": str(each), "inputs": [each]} for each in range(139)]
    header.update(index=[["bits", 2, 0]] * 139, norms=[], shared=[])


def _preprocess(header: dict[str, Any], **changes: object) -> None:
    header["manifest"]["domains"]["a"]["preprocess"] |= changes


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda h: h.update(index=[]), "its index is of 0 layers, its graph has 1"),
        (lambda h: h.update(index=[["bits", 2, 4]]), "an index longer than a bit per kernel"),
        (lambda h: h.update(index=[["bits", -1, 4]]), "its header cannot be read"),
        (lambda h: h.update(norms=["0.scale", "0.scale"]), "names a tensor twice"),
        (lambda h: h.update(shared=["0.scale", "0.ones"]), "names a tensor twice"),
        (lambda h: h.update(norms=["1.scale"]), "'1.scale', which no operation has"),
        (lambda h: h.update(norms=["7.scale"]), "'7.scale', which no operation has"),
        (lambda h: h.update(norms=["0.weight"]), "'0.weight', which no operation has"),
        (lambda h: h.update(norms=["00.scale"]), "its header cannot be read"),
        (_twice, "appears twice, with different weights"),
        (_many, "a network of 393216000 weights in"),
        (_nothing_kept, "a network of 12582912 weights in [0-9]+ bytes, where [0-9]+ are the most"),
        (_many_domains, "140859 arrays for 999 domains, where 131072 are the most"),
        (lambda h: _copies(h, 1001), "at most 1000 items"),
        (lambda h: h["manifest"]["domains"].update({"n" * 201: h["manifest"]["domains"]["a"]}), "cannot be read"),
        (lambda h: h["manifest"].update(image_size=7), "has images of 8 pixels, the network of 7"),
        (lambda h: h["manifest"].update(graph=[]), "its header cannot be read"),
        (lambda h: h["manifest"].update(graph=[{"op": "mean", "inputs": [0]}]), "its index is of 1 layers"),
        (lambda h: _preprocess(h, std=[1, 0, 1]), "impossible mean or deviation"),
        (lambda h: _preprocess(h, mean=[1, float("inf"), 1]), "impossible mean or deviation"),
        (lambda h: h["manifest"]["domains"]["a"].update(classes=[]), "its header cannot be read"),
    ],
)
def test_a_header_that_cannot_be_is_refused(
    bundle: Bundle, tmp_path: Path, change: Callable[[dict[str, Any]], object], message: str
) -> None:
    path = tmp_path / "m.prunus"
    write_bundle(path, bundle)
    _rewrite(path, change)
    tracemalloc.start()
    with pytest.raises(BundleError, match=message):
        read_bundle(path)
    assert tracemalloc.get_traced_memory()[1] < 20e6
    tracemalloc.stop()


@pytest.mark.parametrize(
    ("part", "values", "message"),
    [
        ("index", [0b111], "should keep 4 kernels, its index keeps 3"),
        ("index", [0b10001111], "bits behind its last kernel"),
        ("masks", [0b1101, 0b10011], "the mask of 'b' has bits behind the last kernel"),
        ("kernels", [1, 2, float("nan"), 4], "'kernels/conv' holds numbers that are not finite"),
    ],
)
def test_numbers_that_cannot_be_are_refused(
    bundle: Bundle, tmp_path: Path, part: str, values: list[float], message: str
) -> None:
    path = tmp_path / "m.prunus"
    write_bundle(path, bundle)
    arrays = load(path.read_bytes())
    _write(path, _header(path), arrays | {part: np.array(values, dtype=arrays[part].dtype)})
    with pytest.raises(BundleError, match=message):
        read_bundle(path)


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
def test_reading_takes_no_more_memory_than_the_file(tmp_path: Path, dtype: DType) -> None:
    conv = CONV.model_copy(update={"was": None, "channels": (512, 3), "kernel": (7, 7), "pads": (3, 3, 3, 3)})
    layers = [conv.model_copy(update={"layer": str(each)}) for each in range(8)]
    entry = DomainEntry(classes=("x",), preprocess=PREPROCESS)
    manifest = Manifest(
        backbone="x", image_size=8, graph=tuple(layers), domains={"a": entry}, dense_bytes=0, provenance={}
    )
    arrays: dict[str, Array] = {"head/a/weight": np.zeros((1, 512 * 64), np.float32), "head/a/bias": np.zeros(1)}
    for layer in manifest.convs:
        arrays |= {f"union/{layer}": np.full(192, 255, np.uint8), f"mask/a/{layer}": np.full(192, 255, np.uint8)}
        arrays[f"kernels/{layer}"] = np.ones((1536, 7, 7), np.float32)
    write_bundle(tmp_path / "m.prunus", Bundle(manifest, arrays), dtype)
    tracemalloc.start()
    read_bundle(tmp_path / "m.prunus")
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 1.3 * (tmp_path / "m.prunus").stat().st_size


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
        found = widened(encode(array, cast("DType", dtype)))
        assert found.tolist() == torch.from_numpy(array).to(kind).float().tolist()


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
def test_a_file_is_the_same_bytes_every_time_in_every_precision(bundle: Bundle, tmp_path: Path, dtype: DType) -> None:
    write_bundle(tmp_path / "a", bundle, dtype)
    again = read_bundle(tmp_path / "a")
    write_bundle(tmp_path / "b", again, dtype)
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()
    assert again.stored("conv")[1].dtype == STORED[dtype]  # not widened
    kept = {
        name: widened(array) if name.startswith(("kernels/", "head/")) else array
        for name, array in again.arrays.items()
    }
    assert all(np.array_equal(kept[name], array) for name, array in bundle.arrays.items())  # small whole numbers
    with pytest.raises(UnknownNameError, match="unknown dtype 'float8'"):
        write_bundle(tmp_path / "c", bundle, cast("DType", "float8"))


def test_a_checkpoint_and_a_file_that_may_not_be_read_are_called_what_they_are(
    bundle: Bundle, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "m.prunus"
    path.write_bytes(save({"a": np.zeros(1)}, {"prunus": json.dumps({"format_version": 2, "identity": {}})}))
    with pytest.raises(BundleError, match="it is the checkpoint of a training, not a model file"):
        read_bundle(path)
    write_bundle(path, bundle)

    def refuse(*_: object) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "open", refuse)
    with pytest.raises(BundleError, match=r"cannot read .*: Permission denied; check the path"):
        read_bundle(path)


def test_too_little_memory_is_said_to_be_that(bundle: Bundle, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_bundle(tmp_path / "m.prunus", bundle)

    def fail(*_: object) -> None:
        raise MemoryError

    monkeypatch.setattr("prunus.bundle.file.read_arrays", fail)
    with pytest.raises(BundleError, match="there is not enough memory to read it"):
        read_bundle(tmp_path / "m.prunus")


def test_a_weight_that_bfloat16_cannot_hold_is_refused_and_float16_takes_its_largest(
    bundle: Bundle, tmp_path: Path
) -> None:
    large = {"kernels/conv": np.full((4, 1, 1), 3.4e38, np.float32)}
    written = Bundle(bundle.manifest, bundle.arrays | large)
    with pytest.raises(BundleError, match="a weight is too large for bfloat16; write the model as float32"):
        write_bundle(tmp_path / "m.prunus", written, "bfloat16")
    write_bundle(tmp_path / "m.prunus", written, "float16")
    assert read_bundle(tmp_path / "m.prunus").arrays["kernels/conv"].max() == 65504


@settings(max_examples=50, deadline=None)
@given(
    seed=st.integers(0, 2**31),
    density=st.sampled_from([0.0, 0.02, 0.5, 1.0]),
    domains=st.lists(st.from_regex(r"[A-Za-z0-9][A-Za-z0-9._-]{0,9}", fullmatch=True), min_size=1, unique=True),
    text=st.text(),
    dtype=st.sampled_from(["float32", "float16", "bfloat16"]),
)
def test_the_size_of_a_file_is_known_before_it_is_written(
    seed: int, density: float, domains: list[str], text: str, dtype: DType
) -> None:
    drawn = random_bundle(varied_graph(seed), 12, domains, density, seed)
    bundle = Bundle(drawn.manifest.model_copy(update={"backbone": text, "provenance": {text: [text]}}), drawn.arrays)
    assert bundle_size(bundle, dtype) == len(bundle_bytes(bundle, dtype))


def test_the_size_of_a_file_of_unknown_precision_is_refused(bundle: Bundle) -> None:
    with pytest.raises(UnknownNameError, match="unknown dtype 'float8'"):
        bundle_size(bundle, cast("DType", "float8"))
