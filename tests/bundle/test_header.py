"""Contradictory headers are refused before memory is taken."""

import json
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import save

from prunus.bundle.bundle import Bundle
from prunus.bundle.file import read_bundle, write_bundle
from prunus.bundle.header import FORMAT_VERSION, FileHeader
from prunus.errors import BundleError
from tests.makers.graph_bundles import random_bundle, varied_graph
from tests.makers.sealed_files import rewrite_header


def test_a_header_declares_as_many_arrays_as_the_file_holds(tmp_path: Path) -> None:
    written = random_bundle(varied_graph(3), 12, ("a", "b", "c"))
    write_bundle(tmp_path / "m.prunus", written)
    claims = read_header(tmp_path / "m.prunus").claims(values=5)
    assert claims.arrays == len(read_bundle(tmp_path / "m.prunus").arrays)
    assert (claims.domains, claims.values) == (3, 5)
    assert claims.kept == {layer: len(written.arrays[f"kernels/{layer}"]) for layer in written.manifest.convs}


def read_header(path: Path) -> FileHeader:
    content = path.read_bytes()
    container = json.loads(content[8 : 8 + int.from_bytes(content[:8], "little")])
    return FileHeader.model_validate_json(container["__metadata__"]["prunus"])


def test_another_version_is_named(bundle: Bundle, tmp_path: Path) -> None:
    path = tmp_path / "m.prunus"
    write_bundle(path, bundle)
    for version in (2, 99, None, "x"):
        rewrite_header(path, lambda header, version=version: header.update(format_version=version))  # type: ignore[misc]
        with pytest.raises(
            BundleError, match=f"version {version!r}, but this version of Prunus reads 3, 4 and {FORMAT_VERSION}"
        ):
            read_bundle(path)


@pytest.mark.parametrize(
    ("header", "message"),
    [
        ("[]", "format version None"),
        ("{", "damaged or not a Prunus model"),
        ("[" * 100_000, "damaged or not a Prunus model"),
        (json.dumps({"format_version": FORMAT_VERSION, "dtype": 3}), "its header cannot be read: manifest"),
        ('{"format_version": 3, "format_version": 3}', "contains a key twice"),
    ],
)
def test_an_unreadable_header_is_refused(tmp_path: Path, header: str, message: str) -> None:
    (tmp_path / "m.prunus").write_bytes(save({"a": np.zeros(1)}, {"prunus": header}))
    with pytest.raises(BundleError, match=message):
        read_bundle(tmp_path / "m.prunus")


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
        ({"channels": [1, 3]}, "more kept kernels than a layer has"),
        ({"was": [1, 3]}, "more channels than before pruning"),
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
    rewrite_header(path, lambda header: _conv_of(header).update(change))
    tracemalloc.start()
    with pytest.raises(BundleError, match=message):
        read_bundle(path)
    assert tracemalloc.get_traced_memory()[1] < 10e6
    tracemalloc.stop()


def _twice(header: dict[str, Any]) -> None:
    header["manifest"]["graph"].append(_conv_of(header) | {"inputs": [0], "kernel": [3, 3]})


def _many(header: dict[str, Any]) -> None:
    layers = [_conv_of(header) | {"layer": str(number), "channels": [2**16, 3], "was": None} for number in range(2000)]
    means = [{"op": "pool", "kind": "max", "kernel": [8, 8], "stride": [8, 8], "inputs": [0]}]
    header["manifest"]["graph"] = means + [layer | {"inputs": [1]} for layer in layers]
    header.update(index=[["runs", 3, 0]] * len(layers), norms=[], shared=[])


def _nothing_kept(header: dict[str, Any]) -> None:
    """Declare kernels that take no bytes, because none is kept."""
    wide = [{"op": "mean", "inputs": [0]}, {"op": "append_zeros", "inputs": [1], "count": 2**12 - 3}]
    layers = [_conv_of(header) | {"layer": str(number), "channels": [2**10, 2**12], "was": None} for number in range(3)]
    header["manifest"]["graph"] = wide + [layer | {"inputs": [2]} for layer in layers]
    header.update(index=[["runs", 4, 0]] * 3, norms=[], shared=[])


def _copies(header: dict[str, Any], count: int) -> None:
    header["manifest"]["domains"] = {str(number): header["manifest"]["domains"]["a"] for number in range(count)}


def _many_domains(header: dict[str, Any]) -> None:
    """Declare more arrays than fit into memory, all of them empty."""
    _copies(header, 999)
    conv = _conv_of(header) | {"channels": [3, 3], "was": None}
    header["manifest"]["graph"] = [conv | {"layer": str(number), "inputs": [number]} for number in range(139)]
    header.update(index=[["bits", 2, 0]] * 139, norms=[], shared=[])


def _preprocess(header: dict[str, Any], **changes: object) -> None:
    header["manifest"]["domains"]["a"]["preprocess"] |= changes


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda h: h.update(index=[]), "its index has 0 layers, but its graph has 1"),
        (lambda h: h.update(index=[["bits", 2, 4]]), "an index of more than one bit per kernel"),
        (lambda h: h.update(index=[["bits", -1, 4]]), "its header cannot be read"),
        (lambda h: h.update(norms=["0.scale", "0.scale"]), "lists a tensor twice"),
        (lambda h: h.update(shared=["0.scale", "0.ones"]), "lists a tensor twice"),
        (lambda h: h.update(norms=["1.scale"]), "'1.scale', which no operation has"),
        (lambda h: h.update(norms=["7.scale"]), "'7.scale', which no operation has"),
        (lambda h: h.update(norms=["0.weight"]), "'0.weight', which no operation has"),
        (lambda h: h.update(norms=["00.scale"]), "its header cannot be read"),
        (_twice, "appears twice, with different weights"),
        (_many, "declares 393216000 weights in"),
        (_nothing_kept, "declares 12582912 weights in [0-9]+ bytes; at most [0-9]+ are allowed"),
        (_many_domains, "140859 arrays for 999 domains; at most 131072 are allowed"),
        (lambda h: _copies(h, 1001), "at most 1000 items"),
        (lambda h: h["manifest"]["domains"].update({"n" * 201: h["manifest"]["domains"]["a"]}), "cannot be read"),
        (lambda h: h["manifest"].update(image_size=7), "has images of 8 pixels, but the network takes 7"),
        (lambda h: h["manifest"].update(graph=[]), "its header cannot be read"),
        (lambda h: h["manifest"].update(graph=[{"op": "mean", "inputs": [0]}]), "its index has 1 layer"),
        (lambda h: _preprocess(h, std=[1, 0, 1]), "invalid mean or standard deviation"),
        (lambda h: _preprocess(h, mean=[1, float("inf"), 1]), "invalid mean or standard deviation"),
        (lambda h: h["manifest"]["domains"]["a"].update(classes=[]), "its header cannot be read"),
    ],
)
def test_a_header_that_cannot_be_is_refused(
    bundle: Bundle, tmp_path: Path, change: Callable[[dict[str, Any]], object], message: str
) -> None:
    path = tmp_path / "m.prunus"
    write_bundle(path, bundle)
    rewrite_header(path, change)
    tracemalloc.start()
    with pytest.raises(BundleError, match=message):
        read_bundle(path)
    assert tracemalloc.get_traced_memory()[1] < 20e6
    tracemalloc.stop()
