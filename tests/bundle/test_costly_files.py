"""Small files with a correct checksum that would take seconds or gigabytes are refused when their header is read."""

import time
import tracemalloc
from collections.abc import Callable
from math import prod
from pathlib import Path
from typing import Any

import pytest

import prunus
from prunus.bundle.bundle import Bundle
from prunus.bundle.file import read_bundle, write_bundle
from prunus.errors import BundleError
from prunus.runtime import Predictor
from tests.makers.sealed_files import rewrite_header

POINT = {"op": "conv", "layer": "last", "channels": [1, 3], "kernel": [1, 1]}


def _pools(count: int, kernel: int) -> list[dict[str, Any]]:
    """Return pools of the image, one of which the last layer reads."""
    pads = [(kernel - 1) // 2] * 2 + [kernel // 2] * 2
    pool = {"op": "pool", "inputs": [0], "kind": "max", "kernel": [kernel] * 2, "stride": [1, 1]}
    return [pool | {"pads": pads}] * count + [{"op": "mean", "inputs": [1]}, POINT | {"inputs": [count + 1]}]


def _replace_graph(header: dict[str, Any], graph: list[dict[str, Any]], side: int) -> None:
    manifest = header["manifest"]
    manifest.update(graph=graph, image_size=side, domains={"a": manifest["domains"]["a"]})
    manifest["domains"]["a"]["preprocess"].update(size=side, resize=side)
    manifest["domains"]["a"]["classes"] = ["x"]
    header.update(norms=[], shared=[], index=[["bits", -(-prod(graph[-1]["channels"]) // 8), 0]])


def _write(path: Path, bundle: Bundle, graph: list[dict[str, Any]], side: int) -> None:
    """Write a file of one layer, whose kernels are all removed."""
    write_bundle(path, bundle)
    rewrite_header(path, lambda header: _replace_graph(header, graph, side), fit=True)


def test_a_small_file_of_few_pools_is_read(bundle: Bundle, tmp_path: Path) -> None:
    _write(tmp_path / "m.prunus", bundle, _pools(count=3, kernel=8), 256)
    assert len(read_bundle(tmp_path / "m.prunus").manifest.graph) == 5
    assert Predictor(tmp_path / "m.prunus").domains == ("a",)


CHAIN = [{"op": "add", "inputs": [number, number], "activation": "mish"} for number in range(1, 100)]
GROUPED = {"inputs": [1], "groups": 16384, "channels": [49152, 4], "kernel": [1, 2], "pads": [0, 1, 0, 0]}
HUGE = {"op": "append_zeros", "inputs": [0], "count": 1021}


@pytest.mark.parametrize(
    ("graph", "side", "message"),
    [
        (
            _pools(count=130, kernel=32),
            256,
            "loading it would take up to .* seconds; at most 2.0 are allowed",
        ),
        (_pools(count=9990, kernel=31), 32, "loading it would take up to .* seconds; at most 2.0 are allowed"),
        (
            [HUGE | {"count": 65533}, POINT | GROUPED],
            1,
            "loading it would take up to .* MB of memory; at most 300.7 are allowed",
        ),
        (
            [HUGE, *CHAIN, {"op": "mean", "inputs": [100]}, POINT | {"inputs": [101], "channels": [1, 1024]}],
            96,
            "classifying one image would take up to .* seconds; at most 10.0 are allowed",
        ),
        (
            [HUGE, *CHAIN[:1], {"op": "mean", "inputs": [2]}, POINT | {"inputs": [3], "channels": [1, 1024]}],
            200,
            "classifying one image would take up to .* MB of memory; at most 1,000.0 are allowed",
        ),
    ],
    ids=["130 pools", "9990 pools", "many groups", "slow values", "large values"],
)
def test_a_file_whose_operations_cost_too_much_in_sum_is_refused_at_once(
    bundle: Bundle, tmp_path: Path, graph: list[dict[str, Any]], side: int, message: str
) -> None:
    path = tmp_path / "m.prunus"
    _write(path, bundle, graph, side)
    assert path.stat().st_size < 2**20 + 2**19
    started = time.process_time()
    with pytest.raises(BundleError, match=message):
        read_bundle(path)
    assert time.process_time() - started < 2


def test_a_refused_file_takes_little_memory(bundle: Bundle, tmp_path: Path) -> None:
    _write(tmp_path / "m.prunus", bundle, _pools(count=130, kernel=32), 256)
    tracemalloc.start()
    try:
        with pytest.raises(BundleError, match="loading it would take"):
            read_bundle(tmp_path / "m.prunus")
        assert tracemalloc.get_traced_memory()[1] < 10e6
    finally:
        tracemalloc.stop()


def _number_of_400_digits(header: dict[str, Any]) -> None:
    header["manifest"]["dense_bytes"] = 10**400


@pytest.mark.parametrize("read", [prunus.card, prunus.inspect])
def test_a_number_of_400_digits_in_the_header_is_an_error(
    bundle: Bundle, tmp_path: Path, read: Callable[[Path], object]
) -> None:
    path = tmp_path / "m.prunus"
    write_bundle(path, bundle)
    rewrite_header(path, _number_of_400_digits)
    with pytest.raises(BundleError, match=r"its header cannot be read: manifest\.dense_bytes"):
        read(path)
