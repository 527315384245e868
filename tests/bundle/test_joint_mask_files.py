"""An 8-bit file codes its masks together where that saves enough, and answers as before."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from prunus.bundle.bundle import Bundle
from prunus.bundle.coding import joint_masks
from prunus.bundle.file import bundle_bytes, bundle_size, part_sizes, read_bundle, write_bundle
from prunus.errors import BundleError
from prunus.runtime.numpy_engine import NumpyEngine
from prunus.runtime.predictor import Predictor
from tests.makers.graph_bundles import random_bundle
from tests.makers.joint_masks import GRAPH, masks_of, sharing_bundle
from tests.makers.sealed_files import file_header, rewrite_header


@pytest.fixture
def path(tmp_path: Path) -> Path:
    write_bundle(tmp_path / "m.prunus", sharing_bundle(), "int8")
    return tmp_path / "m.prunus"


def test_a_file_with_joint_masks_is_smaller_and_holds_the_same(
    path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bundle, plain = sharing_bundle(), tmp_path / "plain.prunus"
    monkeypatch.setattr(joint_masks, "WORTH_IT", 1.0)
    write_bundle(plain, bundle, "int8")
    sizes, joint = part_sizes(plain), part_sizes(path)
    assert joint.pop("masks") <= 0.8 * sizes.pop("masks")
    assert joint == sizes
    assert path.stat().st_size < plain.stat().st_size
    assert [file_header(file)["format_version"] for file in (plain, path)] == [4, 5]
    assert masks_of(read_bundle(path)) == masks_of(read_bundle(plain)) == masks_of(bundle)
    read, other = read_bundle(path).arrays, read_bundle(plain).arrays
    assert read.keys() == other.keys()
    assert all(read[name].tobytes() == other[name].tobytes() for name in read)


@pytest.mark.parametrize("seed", range(4))
def test_the_answers_are_those_of_plain_masks(tmp_path: Path, seed: int) -> None:
    bundle = sharing_bundle(seed)
    write_bundle(tmp_path / "m.prunus", bundle, "int8")
    images = np.random.default_rng(seed).standard_normal((3, 3, 8, 8)).astype(np.float32)
    for domain in bundle.domains:
        expected = NumpyEngine(bundle).logits(images, domain)
        assert (Predictor(tmp_path / "m.prunus").logits(images, domain) == expected).all()


def test_the_size_is_known_before_the_file_is_written(path: Path) -> None:
    assert bundle_size(sharing_bundle(), "int8") == path.stat().st_size
    assert bundle_bytes(sharing_bundle(), "int8") == path.read_bytes()


def test_a_plan_from_floats_does_not_depend_on_which_domain_uses_which_kernel() -> None:
    floats = random_bundle(GRAPH, 8)
    masks = {name: array for name, array in floats.arrays.items() if name.startswith("mask/")}
    everything = {name: np.full_like(array, 255) for name, array in masks.items()}
    shared = Bundle(floats.manifest, floats.arrays | everything)
    assert bundle_size(shared, "int8") == bundle_size(floats, "int8")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda header: header.pop("mask_bytes"), "a file of int8 has format version 4, not 5"),
        (lambda header: header.update(format_version=4), "a file of int8 has format version 5, not 4"),
        (lambda header: header.update(mask_bytes=10**6), "more bytes of masks than a bit per kernel takes"),
        (lambda header: header.update(mask_bytes=-1), "its header cannot be read: mask_bytes"),
        (lambda header: header.update(mask_bytes=header["mask_bytes"] - 1), "its part 'masks' is"),
        (lambda header: header.update(dtype="float32"), "its masks are coded together, but its type is float32"),
    ],
)
def test_headers_that_do_not_fit_are_refused(
    path: Path, change: Callable[[dict[str, Any]], object], message: str
) -> None:
    rewrite_header(path, change)
    with pytest.raises(BundleError, match=message):
        read_bundle(path)
