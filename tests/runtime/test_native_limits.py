"""What is too large for the native engine is refused, and forked children can use and leave a predictor."""

import os
import signal
from pathlib import Path

import numpy as np
import pytest
from graph_bundles import convolution, make_graph, random_bundle

from prunus.bundle.file import write_bundle
from prunus.errors import BundleError
from prunus.runtime import Predictor
from prunus.runtime.native_engine import NativeEngine


@pytest.mark.parametrize("side", [400, 2000])
def test_a_window_as_large_as_a_large_image_is_refused_before_memory_is_taken(side: int) -> None:
    graph = make_graph(convolution("huge", (0,), (1, 3), kernel=(side, side), pads=(0, 0, 0, 0)))
    with pytest.raises(BundleError, match="window"):
        NativeEngine(random_bundle(graph, side, density=0.0))


def test_a_stride_of_any_length_is_computed() -> None:
    graph = make_graph(convolution("far", (0,), (4, 3), kernel=(1, 1), stride=(65536, 65536), pads=(1, 1, 0, 0)))
    bundle = random_bundle(graph, 8, density=1.0)
    assert np.isfinite(NativeEngine(bundle).logits(np.ones((1, 3, 8, 8), np.float32), "a")).all()


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
