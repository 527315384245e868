"""Models too large for the native engine are refused, and forked children can use a predictor."""

import os
import signal
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from prunus.bundle.file import write_bundle
from prunus.errors import BundleError
from prunus.runtime import Predictor, _native
from prunus.runtime.native_engine import NativeEngine
from tests.makers.coded_bundles import random_coded_bundle
from tests.makers.graph_bundles import convolution, make_graph, random_bundle


@pytest.mark.parametrize("side", [400, 2000])
def test_a_window_as_large_as_a_large_image_is_refused_before_memory_is_taken(side: int) -> None:
    graph = make_graph(convolution("huge", (0,), (1, 3), kernel=(side, side), pads=(0, 0, 0, 0)))
    with pytest.raises(BundleError, match="window"):
        NativeEngine(random_bundle(graph, side, density=0.0))


POINT = {"kernel": (1, 1), "pads": (0, 0, 0, 0)}
MANY_CHANNELS: dict[str, Any] = {"op": "append_zeros", "inputs": (0,), "count": 65533}


def test_lists_of_very_many_channels_and_domains_are_refused_before_memory_is_taken() -> None:
    graph = make_graph(
        MANY_CHANNELS,
        convolution("wide", (1,), (8192, 8), kernel=(1, 2), pads=(0, 1, 0, 0), groups=8192),
        {"op": "mean", "inputs": (2,)},
        convolution("last", (3,), (1, 8192), **POINT),
    )
    assert NativeEngine(random_bundle(graph, 1, domains=("a",), density=0.0)).layers == ["wide", "last"]
    with pytest.raises(BundleError, match="so many channels and domains are too long"):
        NativeEngine(random_bundle(graph, 1, domains=[f"d{number}" for number in range(20)], density=0.0))


@pytest.mark.parametrize("kind", ["values", "planes of a stride"])
def test_a_model_whose_image_would_take_gigabytes_is_refused_before_memory_is_taken(kind: str) -> None:
    if kind == "values":  # a pixel takes sixteen numbers, and all values are needed to the end
        count = 260
        operations: list[dict[str, Any]] = [
            MANY_CHANNELS,
            *({"op": "add", "inputs": (n, n)} for n in range(1, count + 1)),
        ]
        operations += [{"op": "add", "inputs": (len(operations) + n, n + 1)} for n in range(count)]
        side, channels = 1, 65536
    else:  # a window of as many planes as it has pixels
        pool = {"op": "pool", "inputs": (1,), "kind": "max", "kernel": (181, 181), "stride": (181, 181)}
        operations = [MANY_CHANNELS | {"count": 1021}, pool]
        side, channels = 181, 1024
    graph = make_graph(*operations, convolution("last", (len(operations),), (1, channels), **POINT))
    with pytest.raises(BundleError, match="one image would take more than a gigabyte"):
        NativeEngine(random_bundle(graph, side, domains=("a",), density=0.0))


@pytest.mark.skipif(not Path("/proc/self/clear_refs").exists(), reason="only Linux tells the peak")
def test_images_of_a_large_network_go_through_it_a_few_at_a_time() -> None:
    graph = make_graph(
        convolution("stem", (0,), (160, 3), **POINT),
        {"op": "mean", "inputs": (1,)},
        convolution("last", (2,), (4, 160), **POINT),
    )
    engine = NativeEngine(random_bundle(graph, 300, density=1.0))
    images = np.random.default_rng(0).standard_normal((9, 3, 300, 300)).astype(np.float32)
    assert 8 * engine.image_bytes > 2**28 + 2**27  # eight at a time would take so much
    Path("/proc/self/clear_refs").write_text("5")  # forget the peak
    before = _status("VmRSS")
    together = engine.logits(images, "a")
    assert _status("VmHWM") - before < 2**28 + 2**25
    assert np.array_equal(together, np.concatenate([engine.logits(image[None], "a") for image in images]))


def _status(key: str) -> int:
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith(key))


def test_a_stride_of_any_length_is_computed() -> None:
    graph = make_graph(convolution("far", (0,), (4, 3), kernel=(1, 1), stride=(65536, 65536), pads=(1, 1, 0, 0)))
    bundle = random_bundle(graph, 8, density=1.0)
    assert np.isfinite(NativeEngine(bundle).logits(np.ones((1, 3, 8, 8), np.float32), "a")).all()


@pytest.mark.parametrize("stride", [1, 2])
def test_what_each_thread_copies_for_itself_is_counted(stride: int) -> None:
    window = {"stride": (stride, stride), "pads": (1, 1, 1, 1)}
    graph = make_graph(convolution("first", (0,), (100, 3), **POINT), convolution("wide", (1,), (4, 100), **window))
    bundle = random_coded_bundle(graph, 20)
    least = 100 * 20 * 20 // stride  # bytes
    if stride == 1 and "avx512vnni" not in _native.available_kernels():
        pytest.skip("only avx512vnni spreads words; elsewhere, windows of stride 1 are read in place")
    two, four = (NativeEngine(bundle, threads).image_bytes for threads in (2, 4))
    assert four - two >= 2 * least


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system does not fork")
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_forked_child_answers_and_ends(tmp_path: Path) -> None:
    bundle = random_bundle(make_graph(convolution("layer", (0,), (40, 3))), 16, density=0.7)
    write_bundle(tmp_path / "m.prunus", bundle)
    predictor = Predictor(tmp_path / "m.prunus", threads=2)
    images = np.random.default_rng(0).standard_normal((3, 3, 16, 16)).astype(np.float32)
    expected = predictor.logits(images, "a")
    child = os.fork()
    if child == 0:
        signal.alarm(20)  # a child that hangs is killed, and its parent sees that
        same = np.array_equal(predictor.logits(images, "a"), expected)
        del predictor
        os._exit(0 if same else 1)
    assert os.waitpid(child, 0)[1] == 0
    assert np.array_equal(predictor.logits(images, "a"), expected)
