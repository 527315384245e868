"""The numpy engine computes a whole graph as torch does, for each domain."""

import threading
import time
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from prunus.arrays import Values
from prunus.bundle.bundle import Bundle
from prunus.errors import DataError
from prunus.runtime import numpy_engine
from prunus.runtime.native_engine import NativeEngine
from prunus.runtime.numpy_engine import DomainTensors, NumpyEngine
from tests.makers.graph_bundles import convolution, make_graph, random_bundle

POINTWISE = {"op": "conv", "layer": "wide", "channels": (8, 4), "kernel": (1, 1), "groups": 2}
THREES = {"op": "conv", "kernel": (3, 3)}
GRAPH = make_graph(
    THREES | {"inputs": (0,), "layer": "stem", "channels": (8, 3), "pads": (1, 1, 1, 1), "activation": "relu"},
    THREES | {"inputs": (1,), "layer": "deep", "channels": (8, 1), "pads": (0, 0, 1, 1), "stride": (2, 2), "groups": 8},
    {"op": "pool", "inputs": (1,), "kind": "mean", "kernel": (2, 2), "stride": (2, 2)},
    POINTWISE | {"inputs": (2, 3), "activation": "gelu"},
    POINTWISE | {"inputs": (4,)},
    {"op": "cat", "inputs": (3, 5)},
    {"op": "affine", "inputs": (6,), "activation": "tanh"},
    {"op": "mean", "inputs": (7,)},
)


def _normal(seed: int, *shape: int) -> Values:
    return np.random.default_rng(seed).standard_normal(shape)


def _by_hand(bundle: Bundle, images: Values, domain: str) -> Tensor:
    """Compute the graph above with torch, operation by operation, in float64."""

    def tensor(number: int, role: str, value: float) -> Tensor:
        stored = bundle.tensor(domain, number, role)
        return torch.tensor(value).double() if stored is None else torch.from_numpy(stored).double()

    def conv(x: Tensor, number: int, layer: str, padding: tuple[int, int, int, int], **settings: Any) -> Tensor:  # noqa: ANN401
        weight = torch.from_numpy(bundle.weight(layer, bundle.mask(domain, layer))).double()
        ones = (tensor(number, "ones", 0.0) + torch.zeros(len(weight), *weight.shape[2:], dtype=torch.float64))[:, None]
        plane = torch.ones_like(x[:1, :1])
        plain = F.conv2d(F.pad(x, padding), weight, **settings)
        plain = plain + F.conv2d(F.pad(plane, padding), ones, stride=settings.get("stride", 1))
        return plain * tensor(number, "scale", 1.0).reshape(-1, 1, 1) + tensor(number, "bias", 0.0).reshape(-1, 1, 1)

    stem = F.relu(conv(torch.from_numpy(images).double(), 0, "stem", (1, 1, 1, 1)))
    pooled = F.avg_pool2d(stem, 2)
    wide = F.gelu(
        conv(conv(stem, 1, "deep", (0, 1, 0, 1), stride=2, groups=8), 3, "wide", (0, 0, 0, 0), groups=2) + pooled
    )
    both = torch.cat([pooled, conv(wide, 4, "wide", (0, 0, 0, 0), groups=2)], 1)
    scaled = both * tensor(6, "scale", 1.0).reshape(-1, 1, 1) + tensor(6, "bias", 0.0).reshape(-1, 1, 1)
    head = {key: torch.from_numpy(bundle.arrays[f"head/{domain}/{key}"]).double() for key in ("weight", "bias")}
    return F.linear(torch.tanh(scaled).mean((2, 3)), head["weight"], head["bias"])


@pytest.mark.parametrize("seed", range(6))
def test_a_whole_graph_gives_each_domain_its_own_answers(seed: int) -> None:
    bundle = random_bundle(GRAPH, 8, seed=seed)
    engine, images = NumpyEngine(bundle), _normal(seed, 3, 3, 8, 8).astype(np.float32)
    for domain in ("a", "b", "a"):
        logits = engine.logits(images, domain)
        assert logits.dtype == np.float32
        expected = _by_hand(bundle, images, domain).numpy()
        assert logits.shape == expected.shape
        largest = max(1.0, float(np.abs(expected).max()))
        np.testing.assert_allclose(logits, expected, rtol=0, atol=1e-5 * largest)


def test_convolving_some_rows_at_a_time_gives_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    bundle, images = random_bundle(GRAPH, 8), _normal(0, 2, 3, 8, 8).astype(np.float32)
    expected = NumpyEngine(bundle).logits(images, "a")
    for most in (1, 500, 1000):  # one row, several, an odd rest
        monkeypatch.setattr("prunus.graph.compute.MAX_COLUMN_NUMBERS", most)
        np.testing.assert_allclose(NumpyEngine(bundle).logits(images, "a"), expected, rtol=1e-5, atol=1e-6)


def test_threads_get_the_answers_that_one_thread_gets() -> None:
    bundle, images = random_bundle(GRAPH, 8), _normal(0, 2, 3, 8, 8).astype(np.float32)
    expected = {domain: NumpyEngine(bundle).logits(images, domain) for domain in bundle.domains}
    engine = NumpyEngine(bundle)
    answers: list[tuple[str, Values]] = []

    def work() -> None:
        answers.extend((domain, engine.logits(images, domain)) for domain in (*bundle.domains, *bundle.domains))

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(answers) == 16
    assert all(np.array_equal(logits, expected[domain]) for domain, logits in answers)


def test_no_images_give_no_answers_and_those_that_are_not_finite_are_refused() -> None:
    engine = NumpyEngine(random_bundle(GRAPH, 8))
    assert engine.logits(np.zeros((0, 3, 8, 8), np.float32), "a").shape == (0, 3)
    for wrong in (np.nan, np.inf, -np.inf):
        with pytest.raises(DataError, match="not finite"):
            engine.logits(np.full((1, 3, 8, 8), wrong, np.float32), "a")


def test_only_the_domains_used_last_stay_expanded(monkeypatch: pytest.MonkeyPatch) -> None:
    bundle = random_bundle(make_graph(convolution("layer", (0,), (8, 3))), 6, ("a", "b", "c"))
    expand = numpy_engine._dense_tensors
    expanded: list[str] = []

    def record(bundle: Bundle, domain: str) -> DomainTensors:
        expanded.append(domain)
        return expand(bundle, domain)

    monkeypatch.setattr(numpy_engine, "MAX_CACHED_BYTES", 2 * 4 * 8 * 3 * 9)  # two domains
    monkeypatch.setattr(numpy_engine, "_dense_tensors", record)
    engine = NumpyEngine(bundle)
    images = np.ones((1, 3, 6, 6), np.float32)
    for domain in ("a", "b", "a", "c", "a", "b"):  # c replaces b, and b replaces c
        expected = NativeEngine(bundle).logits(images, domain)
        np.testing.assert_allclose(engine.logits(images, domain), expected, atol=1e-4)
    assert expanded == ["a", "b", "c", "b"]


def test_the_time_to_prepare_a_graph_grows_with_its_operations_and_not_faster() -> None:
    # a time that grows with their square would be 64 times as long
    assert _preparation_seconds(8000) < 24 * _preparation_seconds(1000)


def _preparation_seconds(count: int) -> float:
    graph = make_graph(convolution("layer", (0,), (1, 3)), *({"op": "add", "inputs": (n, n)} for n in range(1, count)))
    bundle = random_bundle(graph, 1, ("a",))
    seconds = []
    for _ in range(3):
        started = time.process_time()
        NumpyEngine(bundle)
        seconds.append(time.process_time() - started)
    return min(seconds)
