"""Small model files that claim to be large: the checksum is valid, no kernel is kept, every array is minimal."""

from __future__ import annotations

from typing import Any

import numpy as np

from fuzzing.sealing import sealed
from prunus.bundle.coding.index import encode_index

PREPROCESS = {"size": 1, "resize": 1, "mean": [0, 0, 0], "std": [1, 1, 1]}
EMPTY = {name: {"data_offsets": [0, 0]} for name in ("kernels", "index", "masks", "norms", "heads", "shared")}


def many_arrays(content: bytes, rng: np.random.Generator) -> bytes:
    """Claim up to thousands of layers and thousands of domains."""
    layers = int(10 ** rng.uniform(0, 3.9))
    domains = int(10 ** rng.uniform(0, 3.5))
    graph = [_point(0, "first", 1, 3), *(_point(1, str(layer), 1, 1) for layer in range(1, layers))]
    return empty_model(graph, [3, *[1] * (layers - 1)], domains)


def huge_layers(content: bytes, rng: np.random.Generator) -> bytes:
    """Claim layers of up to 2^32 kernels and keep none of them."""
    widths = [int(2 ** rng.uniform(2, 16)) for _ in range(int(rng.integers(2, 5)))]
    graph: list[dict[str, Any]] = [{"op": "append_zeros", "inputs": [0], "count": widths[0] - 3}]
    pairs = list(zip(widths[1:], widths[:-1], strict=True))
    graph += [_point(index + 1, str(index), outputs, inputs) for index, (outputs, inputs) in enumerate(pairs)]
    return empty_model(graph, [outputs * inputs for outputs, inputs in pairs], int(2 ** rng.uniform(0, 8)))


def empty_model(graph: list[dict[str, Any]], kernels: list[int], domains: int) -> bytes:
    """Return a file whose layers have these numbers of kernels and keep none."""
    runs = [_run(count) for count in kernels]
    entry = {"classes": ["x"], "preprocess": PREPROCESS}
    manifest = {"backbone": "claims", "image_size": 1, "graph": graph, "dense_bytes": 0, "provenance": {}}
    manifest["domains"] = {f"d{number}": entry for number in range(domains)}
    own = {"format_version": 3, "manifest": manifest, "dtype": "float32", "norms": [], "shared": [], "sha256": ""}
    own["index"] = [[code, len(stored), 0] for code, stored in runs]
    index = b"".join(stored for _, stored in runs)
    return sealed(own, EMPTY | {"index": {"data_offsets": [0, len(index)]}}, index, refit=True)


def _point(source: int, layer: str, outputs: int, inputs: int) -> dict[str, Any]:
    return {"op": "conv", "inputs": [source], "layer": layer, "channels": [outputs, inputs], "kernel": [1, 1]}


def _run(count: int) -> tuple[str, bytes]:
    """Encode an index in which no kernel is kept."""
    if count <= 8:
        code, stored = encode_index(np.zeros(count, np.bool_))
        return code, stored.tobytes()
    digits = [count >> shift & 127 for shift in range(0, count.bit_length(), 7)]
    return "runs", bytes([*(digit | 128 for digit in digits[:-1]), digits[-1]])
