"""Model files are read as they were written; damaged and foreign ones are refused with a reason."""

import json
from pathlib import Path
from typing import cast

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from safetensors.numpy import load, save

from prunus.arrays import DType
from prunus.bundle.bundle import Bundle
from prunus.bundle.dtypes import STORED, widened
from prunus.bundle.file import bundle_bytes, bundle_size, part_sizes, read_bundle, write_bundle
from prunus.errors import BundleError, UnknownNameError
from tests.makers.graph_bundles import random_bundle, varied_graph
from tests.makers.sealed_files import rewrite_header


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


def test_a_file_that_is_sealed_again_unchanged_is_read(bundle: Bundle, tmp_path: Path) -> None:
    path = tmp_path / "m.prunus"
    write_bundle(path, bundle)
    rewrite_header(path, lambda header: None)
    assert read_bundle(path).manifest == bundle.manifest


def test_the_sizes_of_parts_are_those_that_safetensors_reads(bundle: Bundle, tmp_path: Path) -> None:
    path = tmp_path / "m.prunus"
    write_bundle(path, bundle)
    assert part_sizes(path) == {name: array.nbytes for name, array in load(path.read_bytes()).items()}


def test_every_flipped_bit_is_noticed(bundle: Bundle, tmp_path: Path) -> None:
    path = tmp_path / "m.prunus"
    write_bundle(path, bundle)
    content, whole = path.read_bytes(), read_bundle(path)
    for offset in range(len(content)):
        path.write_bytes(content[:offset] + bytes([content[offset] ^ 1 << offset % 8]) + content[offset + 1 :])
        try:
            bundle_read = read_bundle(path)
        except BundleError:
            continue
        assert bundle_read.manifest == whole.manifest  # nothing that matters: the order of keys, say
        assert all(np.array_equal(bundle_read.arrays[name], array) for name, array in whole.arrays.items())


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
    with pytest.raises(BundleError, match="it is a checkpoint of a training run, not a model file"):
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
    with pytest.raises(BundleError, match="not enough memory to read it"):
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
