"""A small file may declare many removed kernels, but not more than its size allows."""

from pathlib import Path

import numpy as np
import pytest

from prunus.bundle.file import read_bundle, write_bundle
from prunus.errors import BundleError
from tests.makers.graph_bundles import convolution, make_graph, random_bundle

# the head of one class takes 4 x (outputs + 1) bytes and the index 4: with 1366 outputs 5472 bytes, which allow
# 2**22 + 256 x 5472 weights, and these are 1366 x 4096
MAX_OUTPUTS = 1366


def _write_empty_layer(path: Path, outputs: int) -> None:
    """Write a file of one layer, whose kernels are all removed."""
    graph = make_graph(
        {"op": "mean", "inputs": (0,)},
        {"op": "append_zeros", "inputs": (1,), "count": 4093},
        convolution("wide", [2], (outputs, 4096), kernel=(1, 1), pads=(0, 0, 0, 0)),
    )
    bundle = random_bundle(graph, 8, ("a",), density=0.0)
    entry = bundle.manifest.domains["a"].model_copy(update={"classes": ("x",)})
    manifest = bundle.manifest.model_copy(update={"domains": {"a": entry}})
    heads = {"head/a/weight": np.ones((1, outputs), np.float32), "head/a/bias": np.ones(1, np.float32)}
    arrays = {name: array for name, array in bundle.arrays.items() if name.startswith(("union", "kernels", "mask"))}
    write_bundle(path, type(bundle)(manifest, arrays | heads))


def test_a_small_and_very_sparse_file_is_read(tmp_path: Path) -> None:
    _write_empty_layer(tmp_path / "m.prunus", MAX_OUTPUTS)
    assert not read_bundle(tmp_path / "m.prunus").union("wide").any()
    assert (tmp_path / "m.prunus").stat().st_size < 10_000


def test_a_file_that_declares_more_weights_than_its_size_allows_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BundleError, match="it declares 5599232 weights in 5476 bytes; at most 5596160 are allowed"):
        _write_empty_layer(tmp_path / "m.prunus", MAX_OUTPUTS + 1)
