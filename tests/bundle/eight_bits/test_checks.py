"""8-bit files with impossible operations, layers, scales or codes are refused with a reason."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import load

from prunus.arrays import Array
from prunus.bundle.bundle import Bundle
from prunus.bundle.file import bundle_bytes, read_bundle, write_bundle
from prunus.errors import BundleError
from tests.makers.coded_bundles import random_coded_bundle
from tests.makers.graph_bundles import convolution, make_graph, random_bundle
from tests.makers.sealed_files import file_header, rewrite_header, seal

GRAPH = make_graph(
    convolution("stem", [0], (4, 3), activation="relu"),
    {"op": "pool", "inputs": (1,), "kind": "max", "kernel": (2, 2), "stride": (2, 2)},
    {"op": "append_zeros", "inputs": (2,), "count": 4},
    convolution("next", [3], (4, 8)),
    {"op": "layer_norm", "inputs": (4,), "eps": 1e-6},
)


@pytest.fixture
def bundle() -> Bundle:
    return random_coded_bundle(GRAPH, 8)


def _set(**changes: object) -> Callable[[dict[str, Any]], object]:
    return lambda header: header["manifest"].update(changes)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (_set(integers=[0, 1, 2, 3, 4]), r"its operation 4 \(layer_norm\) cannot compute with 8-bit integers"),
        (_set(integers=[0, 1, 2, 3, 5]), "its operation 5 cannot compute with 8-bit integers"),
        (_set(integers=[1, 0]), "its 8-bit operations are not in order"),
        (_set(integers=[0, 0]), "its 8-bit operations are not in order"),
        (_set(integers=[-1]), r"its header cannot be read: manifest\.integers"),
        (_set(wide=["none"]), "its wide layers are not layers of its graph"),
        (_set(wide=["next", "stem"]), "its wide layers are not layers of its graph, in their order"),
        (_set(wide=["stem"]), "its operation 0 cannot compute with 8-bit integers"),
        (lambda header: header.update(shared=[*header["shared"], "0.ones"]), "its operation 0 .conv. cannot compute"),
        (lambda header: header.update(format_version=3), "a file of int8 has format version 4, not 3"),
        (lambda header: header.update(dtype="float16"), "a file of float16 has format version 3, not 4"),
        (
            lambda header: header.update(dtype="float16", format_version=3),
            "it lists 8-bit operations or layers, but its type is float16",
        ),
    ],
)
def test_impossible_operations_and_layers_are_refused(
    bundle: Bundle, tmp_path: Path, change: Callable[[dict[str, Any]], object], message: str
) -> None:
    write_bundle(tmp_path / "m.prunus", bundle, "int8")
    rewrite_header(tmp_path / "m.prunus", change)
    with pytest.raises(BundleError, match=message):
        read_bundle(tmp_path / "m.prunus")


def _put(part: str, index: int, number: float) -> Callable[[dict[str, Array]], None]:
    def change(arrays: dict[str, Array]) -> None:
        arrays[part] = arrays[part].copy()
        arrays[part][index] = number

    return change


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (_put("kernels", 0, -128), "'kernels/stem' has a code below -127"),
        (_put("heads", 3, -128), "'head/a/weight' has a code below -127"),
        (_put("scales", 0, 0.0), "'scale/stem' has a scale that is not from"),
        (_put("scales", 4, -1.0), "'scale/next' has a scale that is not from"),
        (_put("scales", 1, np.nan), "'scale/stem' contains numbers that are not finite"),
        (_put("classifiers", 0, 2.0**41), "'head/a/scale' has a scale that is not from"),
        (_put("classifiers", 3, np.inf), "'head/a/bias' contains numbers that are not finite"),
        (_put("codings", 0, 2.0**-41), "'coding/a/scale' has a scale that is not from"),
        (_put("codings", 2, 1.0), "in domain 'a' an operation that keeps codes changes their scale"),
        (_put("zeros", 8, 77), "in domain 'b' an operation that keeps codes changes their zero"),
    ],
)
def test_impossible_numbers_are_refused(
    bundle: Bundle, tmp_path: Path, change: Callable[[dict[str, Array]], None], message: str
) -> None:
    path = tmp_path / "m.prunus"
    write_bundle(path, bundle, "int8")
    header, arrays = file_header(path), load(path.read_bytes())
    change(arrays)
    seal(path, header, arrays)
    with pytest.raises(BundleError, match=message):
        read_bundle(path)


def test_numbers_that_a_reader_would_refuse_are_not_written(bundle: Bundle) -> None:
    bundle.arrays["coding/a/scale"][:] = 0
    with pytest.raises(BundleError, match="has a scale that is not from"):
        bundle_bytes(bundle, "int8")


def test_floats_are_not_written_as_8_bits_nor_8_bits_as_floats(bundle: Bundle) -> None:
    with pytest.raises(BundleError, match="8-bit numbers must be chosen with training images"):
        bundle_bytes(random_bundle(GRAPH, 8), "int8")
    with pytest.raises(BundleError, match="an 8-bit model cannot be written as float16"):
        bundle_bytes(bundle, "float16")
