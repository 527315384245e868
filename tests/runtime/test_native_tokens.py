"""Every engine computes the operations on tokens as torch does in double precision, with any number of threads."""

from collections.abc import Callable

import numpy as np
import onnx
import onnxruntime
import pytest

from prunus.arrays import Floats
from prunus.bundle.bundle import Bundle
from prunus.errors import BundleError
from prunus.onnx.model import common_model, domain_model
from prunus.runtime import _native
from prunus.runtime.native_engine import NativeEngine
from prunus.runtime.numpy_engine import NumpyEngine
from tests.makers.coded_bundles import random_coded_bundle
from tests.makers.graph_bundles import convolution, exact_logits, make_graph, random_bundle
from tests.makers.token_networks import ONE, attention, token_graph

IMAGES: Floats = np.random.default_rng(1).standard_normal((3, 3, 8, 8)).astype(np.float32)


@pytest.mark.parametrize("seed", range(4))
def test_all_engines_agree_with_double_precision(seed: int) -> None:
    bundle = random_bundle(token_graph(), 8, seed=seed)
    engines: list[NumpyEngine | NativeEngine] = [NumpyEngine(bundle)]
    engines += [NativeEngine(bundle, kernels=name) for name in _native.available_kernels()]
    common = onnxruntime.InferenceSession(common_model(onnx, bundle).SerializeToString())
    for number, domain in enumerate(bundle.domains):
        expected = exact_logits(bundle, IMAGES, domain)
        session = onnxruntime.InferenceSession(domain_model(onnx, bundle, domain).SerializeToString())
        answers = [engine.logits(IMAGES, domain) for engine in engines]
        answers.append(session.run(None, {"images": IMAGES})[0])
        answers.append(common.run(None, {"images": IMAGES, "domain": np.array(number)})[0][:, : expected.shape[1]])
        for answer in answers:
            np.testing.assert_allclose(answer, expected, rtol=0, atol=2e-5 * np.abs(expected).max())


@pytest.mark.parametrize("scale", [3.0, 1e10], ids=["usual", "huge scores"])
@pytest.mark.parametrize("tokens", [*range(15, 27), 33, 37, 40])
def test_any_number_of_queries_is_as_exact(tokens: int, scale: float) -> None:
    rows = {"op": "pool", "inputs": (0,), "kind": "mean", "kernel": (tokens, 1), "stride": (tokens, 1)}
    split = convolution("split", [1], (30, 3), **ONE)
    wide = {"dims": (4, 7), "step": (4, 4, 7)}
    all_queries = [rows, split, attention((2, 2, 2), scale=scale, **wide)]
    one_query = [rows, split, {"op": "mean", "inputs": (2,)}, attention((3, 2, 2), scale=7 * scale, **wide)]
    around = {"window": (1, tokens), "shift": (0, 3), "apart": -2.0, "pairs": (tokens, tokens)}
    windows = [rows, split, attention((2, 2, 2), scale=scale, **wide, **around)]
    images = np.random.default_rng(tokens).standard_normal((2, 3, tokens, tokens)).astype(np.float32)
    for operations in all_queries, one_query, windows:
        bundle = random_bundle(make_graph(*operations), tokens, density=1.0, seed=tokens)
        expected = exact_logits(bundle, images, "a")
        for name in _native.available_kernels():
            found = NativeEngine(bundle, kernels=name).logits(images, "a")
            np.testing.assert_allclose(found, expected, rtol=0, atol=5e-6 * np.abs(expected).max())


def test_threads_change_no_bit() -> None:
    bundle = random_bundle(token_graph(), 8)
    alone, together = (NativeEngine(bundle, threads=threads).logits(IMAGES, "a") for threads in (1, 3))
    np.testing.assert_array_equal(alone, together)


GRAPHS = {
    "windows": [attention((2, 2, 2), window=(2, 4), every=(2, 1), shift=(1, 3), apart=-9.0, pairs=(8, 8))],
    "more keys than queries": [
        {"op": "pool", "inputs": (2,), "kind": "max", "kernel": (2, 2), "stride": (2, 2)},
        attention((3, 2, 2)),
    ],
    "one query": [{"op": "mean", "inputs": (2,)}, attention((3, 2, 2), scale=30.0)],
    "heads that share channels": [attention((2, 2, 2), heads=3, dims=(5, 7), first=(0, 1, 3), step=(9, 2, 7))],
}


@pytest.mark.parametrize("operations", GRAPHS.values(), ids=GRAPHS.keys())
@pytest.mark.parametrize("has_padding", [False, True], ids=["rows", "padded rows"])
def test_attention_in_integers_is_the_same_on_every_engine(
    operations: list[dict[str, object]], has_padding: bool
) -> None:
    window = {} if has_padding else ONE  # a window of 3 x 3 reads the padding that rows then have
    first = convolution("a", [0], (4, 3), **window), convolution("b", [1], (24, 4), **window)
    graph = make_graph(*first, *operations)
    for seed in range(3):
        bundle = random_coded_bundle(graph, 8, seed=seed)
        assert len(bundle.manifest.integers) == len(bundle.manifest.graph)
        for domain in bundle.domains:
            expected = NumpyEngine(bundle).logits(IMAGES, domain)
            for kernels in _native.available_kernels():
                for threads in (1, 2, 3):
                    found = NativeEngine(bundle, threads, kernels).logits(IMAGES, domain)
                    np.testing.assert_array_equal(found, expected)


def _with_any_codings(bundle: Bundle, rng: np.random.Generator) -> Bundle:
    """Return a bundle with codings that suit no values, and biases that may be far too large."""
    arrays = dict(bundle.arrays)
    for name, array in bundle.arrays.items():
        if name.startswith("coding/") and name.endswith("scale"):
            arrays[name] = np.ldexp(array.astype(np.float32), rng.integers(-20, 20, array.shape))
        elif name.startswith("coding/"):
            arrays[name] = rng.integers(0, 256, array.shape).astype(np.uint8)
        elif name.endswith(".bias"):
            arrays[name] = np.ldexp(array.astype(np.float32), rng.integers(-16, 124))
    return Bundle(bundle.manifest, arrays)


@pytest.mark.parametrize("seed", range(20))
def test_attention_with_any_codings_and_biases_is_refused_or_the_same_on_every_engine(seed: int) -> None:
    rng = np.random.default_rng(seed)
    fields = {"window": (2, 4), "shift": (1, 1), "apart": float(rng.choice([-100, 5, 1e30])), "pairs": (8, 8)}
    graph = make_graph(convolution("a", [0], (24, 3)), attention((1, 1, 1), **fields))
    bundle = _with_any_codings(random_coded_bundle(graph, 8, seed=seed), rng)
    engines: list[Callable[[], Floats]] = [lambda: NumpyEngine(bundle).logits(IMAGES, "a")]
    engines += [
        lambda kernels=kernels: NativeEngine(bundle, 2, kernels).logits(IMAGES, "a")  # type: ignore[misc]
        for kernels in _native.available_kernels()
    ]
    try:
        expected = engines[0]()
    except BundleError:
        for engine in engines[1:]:
            with pytest.raises(BundleError):
                engine()
        return
    for engine in engines[1:]:
        np.testing.assert_array_equal(engine(), expected)


def test_attention_over_too_many_channels_or_with_wrong_numbers_is_refused() -> None:
    def add(dim: int = 2, factor: float = 1.0, zero: int = 0) -> None:
        program = _native.Program([(600, 1, 3), (600, 1, 3), (dim, 1, 3)], 1, 1, "auto")
        program.add_quantize(0, [1.0], [0])
        program.add_integer_attention(
            (1, 1, 1), 1, (dim, dim), (0, 0, 0), (0, 0, 0), 0.0, [], [], [(0, 0, zero)], [(factor, 1.0)], [None]
        )

    add(514)
    with pytest.raises(ValueError, match="too many channels"):
        add(515)
    with pytest.raises(ValueError, match="not finite"):
        add(factor=float("inf"))
    with pytest.raises(ValueError, match="from 0 to 255"):
        add(zero=256)
