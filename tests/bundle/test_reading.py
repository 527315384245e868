"""Arrays are read without copies, and wrong numbers are refused."""

import tracemalloc
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import load

from prunus.arrays import Array, DType
from prunus.bundle.bundle import Bundle
from prunus.bundle.file import read_bundle, write_bundle
from prunus.bundle.manifest import DomainEntry, Manifest
from prunus.errors import BundleError
from prunus.graph.operations import Conv
from prunus.images import Preprocess
from tests.makers.sealed_files import file_header, seal

PREPROCESS = Preprocess(size=8, resize=9, mean=(0, 0, 0), std=(1, 1, 1))
CONV = Conv(op="conv", inputs=(0,), layer="conv", channels=(2, 3), was=(4, 3), kernel=(1, 1))


@pytest.mark.parametrize(
    ("part", "values", "message"),
    [
        ("index", [0b111], "keeps 4 kernels, but its index 3"),
        ("index", [0b10001111], "bits after its last kernel"),
        ("masks", [0b1101, 0b10011], "the mask of 'b' has bits after the last kernel"),
        ("kernels", [1, 2, float("nan"), 4], "'kernels/conv' contains numbers that are not finite"),
    ],
)
def test_numbers_that_cannot_be_are_refused(
    bundle: Bundle, tmp_path: Path, part: str, values: list[float], message: str
) -> None:
    path = tmp_path / "m.prunus"
    write_bundle(path, bundle)
    arrays = load(path.read_bytes())
    seal(path, file_header(path), arrays | {part: np.array(values, dtype=arrays[part].dtype)})
    with pytest.raises(BundleError, match=message):
        read_bundle(path)


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
def test_reading_takes_no_more_memory_than_the_file(tmp_path: Path, dtype: DType) -> None:
    conv = CONV.model_copy(update={"was": None, "channels": (512, 3), "kernel": (7, 7), "pads": (3, 3, 3, 3)})
    layers = [conv.model_copy(update={"layer": str(number)}) for number in range(8)]
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
