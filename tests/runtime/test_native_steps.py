"""Every instruction set and number of threads gives the integers of the numpy engine, bit by bit."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from prunus.arrays import Floats
from prunus.bundle.bundle import Bundle
from prunus.errors import BundleError, DataError
from prunus.runtime import _native
from prunus.runtime.native_engine import NativeEngine
from prunus.runtime.numpy_engine import NumpyEngine
from tests.makers.coded_bundles import integer_graph, random_coded_bundle
from tests.makers.graph_bundles import convolution, make_graph, varied_graph

KERNELS = _native.available_kernels()
POOL = {"op": "pool", "inputs": (1,), "kernel": (3, 2), "stride": (2, 1), "pads": (1, 1, 0, 1)}
ONE = {"kernel": (1, 1), "pads": (0, 0, 0, 0)}
counts = st.one_of(st.integers(1, 9), st.sampled_from([16, 17, 33, 64, 130]))


def _images(size: int, count: int = 2, seed: int = 0) -> Floats:
    return np.random.default_rng(seed).standard_normal((count, 3, size, size)).astype(np.float32)


def _assert_same(bundle: Bundle, images: Floats, kernels: str, threads: int = 1) -> None:
    numpy, native = NumpyEngine(bundle), NativeEngine(bundle, threads, kernels)
    for domain in (*bundle.domains, bundle.domains[0]):
        assert np.array_equal(native.logits(images, domain), numpy.logits(images, domain)), (kernels, threads, domain)


@pytest.mark.parametrize("kernels", KERNELS)
@pytest.mark.parametrize("seed", range(6))
def test_whole_graphs_are_the_same_with_any_number_of_threads(kernels: str, seed: int) -> None:
    bundle = random_coded_bundle(integer_graph(seed), 12, seed=seed)
    for threads in (1, 2, 3):
        _assert_same(bundle, _images(12, 3, seed), kernels, threads)


@pytest.mark.parametrize("kernels", KERNELS)
@pytest.mark.parametrize(
    "operations",
    [
        [POOL | {"kind": "max", "ceil": True}],
        [POOL | {"kind": "mean"}],
        [POOL | {"kind": "mean", "ceil": True, "count_pads": True}],
        [{"op": "add", "inputs": (1, 1), "activation": "relu"}],
        [{"op": "mul", "inputs": (1, 1), "activation": "relu6"}],
        [{"op": "affine", "inputs": (1,), "activation": "relu"}],
        [{"op": "affine", "inputs": (1,), "activation": "mish"}],
        [{"op": "append_zeros", "inputs": (1,), "count": 3}, convolution("b", [2], (5, 11))],
        [
            {"op": "pool", "inputs": (1,), "kind": "max", "kernel": (2, 2), "stride": (1, 1)},
            {"op": "cat", "inputs": (2, 2)},
        ],
        [{"op": "cat", "inputs": (1, 1)}, convolution("b", [2], (5, 16))],
        [{"op": "mean", "inputs": (1,)}, {"op": "mul", "inputs": (1, 2)}],
        [convolution("b", [1, 1], (8, 8), activation="relu6")],
    ],
    ids=[
        "max",
        "mean",
        "counted",
        "sum",
        "product",
        "affine",
        "table",
        "zeros",
        "joined pools",
        "join",
        "gate",
        "residual",
    ],
)
def test_every_step_is_the_same(kernels: str, operations: list[dict[str, Any]]) -> None:
    graph = make_graph(convolution("a", [0], (8, 3)), *operations)
    for seed in range(4):
        _assert_same(random_coded_bundle(graph, 9, seed=seed), _images(9, seed=seed), kernels)


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("share", [0.0, 1.0], ids=["floats", "integers"])
def test_a_number_that_is_not_finite_is_found_anywhere_in_the_images(share: float, threads: int) -> None:
    graph = make_graph(convolution("a", [0], (8, 3)), convolution("b", [1], (4, 8)))
    bundle = random_coded_bundle(graph, 20, share)  # with integers, images are not copied before they are quantized
    engine = NativeEngine(bundle, threads)
    expected = engine.logits(_images(20), "a")
    for place in ((0, 0, 0, 0), (1, 2, 19, 19), (0, 1, 7, 16), (1, 0, 10, 19)):
        for wrong in (np.nan, np.inf, -np.inf):
            images = _images(20)
            images[place] = wrong
            with pytest.raises(DataError, match="not finite"):
                engine.logits(images, "a")
    assert np.array_equal(engine.logits(_images(20), "a"), expected)


@pytest.mark.parametrize("kernels", KERNELS)
@given(data=st.data())
def test_drawn_convolutions_are_the_same(kernels: str, data: st.DataObject) -> None:
    groups = data.draw(st.sampled_from([1, 1, 1, 2, 8]))
    channels = (data.draw(counts), data.draw(counts)) if groups == 1 else (groups * data.draw(st.integers(1, 3)), 1)
    if groups == 2:
        channels = (channels[0], 5)
    kernel = data.draw(st.sampled_from([(1, 1), (1, 1), (3, 3), (3, 3), (5, 5), (2, 3), (1, 7)]))
    fields: dict[str, Any] = {"kernel": kernel, "groups": groups}
    fields["stride"] = data.draw(st.sampled_from([(1, 1), (1, 1), (2, 2), (3, 1)]))
    fields["pads"] = data.draw(st.tuples(*[st.integers(0, side) for side in (*kernel, *kernel)]))
    fields["activation"] = data.draw(st.sampled_from(["none", "relu", "relu6"]))
    size, seed = data.draw(st.integers(7, 20)), data.draw(st.integers(0, 2**31))
    graph = make_graph(
        convolution("source", [0], (groups * channels[1], 3), **ONE), convolution("drawn", [1], channels, **fields)
    )
    bundle = random_coded_bundle(graph, size, seed=seed, density=data.draw(st.sampled_from([0.0, 0.1, 0.5, 1.0])))
    _assert_same(bundle, _images(size, 1, seed), kernels, data.draw(st.integers(1, 2)))


@pytest.mark.parametrize("kernels", KERNELS)
def test_all_weights_and_codes_at_their_ends_are_summed_without_overflow(kernels: str) -> None:
    graph = make_graph(
        convolution("a", [0], (96, 3), **ONE), convolution("b", [1], (8, 96)), convolution("c", [2], (8, 8), **ONE)
    )
    for weight in (-127, 127):
        for zero in (0, 255):
            bundle = random_coded_bundle(graph, 8, density=1.0)
            for layer in ("b", "c"):
                bundle.arrays[f"kernels/{layer}"][:] = weight
            for domain in bundle.domains:
                bundle.arrays[f"coding/{domain}/zero"][:] = [zero, zero, 128, 128]
                scale = bundle.arrays[f"coding/{domain}/scale"].astype(np.float32)
                bundle.arrays[f"coding/{domain}/scale"] = scale * np.array([1, 1, 300, 300], np.float32)
            for shift in (-9, 0, 9):
                _assert_same(bundle, _images(8) + np.float32(shift), kernels, 2)


@pytest.mark.parametrize("kernels", KERNELS)
@pytest.mark.parametrize("seed", range(4))
def test_graphs_that_are_partly_floats_are_nearly_the_same(kernels: str, seed: int) -> None:
    bundle, images = random_coded_bundle(varied_graph(seed), 12, 0.5, seed), _images(12, seed=seed)
    for domain in bundle.domains:
        expected, logits = (
            NumpyEngine(bundle).logits(images, domain),
            NativeEngine(bundle, 2, kernels).logits(images, domain),
        )
        # a rounding of floats may end in the next code
        np.testing.assert_allclose(logits, expected, rtol=0, atol=0.05 * float(np.abs(expected).max()))


def test_the_kernel_of_every_convolution_has_a_name() -> None:
    bundle = random_coded_bundle(integer_graph(0), 12)
    engine = NativeEngine(bundle)
    assert [layer for layer, _ in engine.paths("a")] == engine.layers
    assert all(path for _, path in engine.paths("a"))


def test_factors_that_overflow_are_refused_by_both_engines() -> None:
    bundle = random_coded_bundle(make_graph(convolution("a", [0], (4, 3))), 6)
    bundle.arrays["shared/0.scale"] = np.full(4, 3e38, np.float32)
    for engine in (NumpyEngine, NativeEngine):
        with pytest.raises(BundleError, match="the factors of its 8-bit operation 0 are too large"):
            engine(Bundle(bundle.manifest, {n: a for n, a in bundle.arrays.items() if not n.startswith("norm/")}))


@pytest.mark.parametrize("kernels", KERNELS)
def test_floats_that_overflowed_are_coded_as_the_ends_and_nan_as_the_first_code(kernels: str) -> None:
    graph = make_graph(
        convolution("a", [0], (40, 3), **ONE),  # infinite, of both signs
        {"op": "affine", "inputs": (1,)},
        {"op": "add", "inputs": (1, 2)},  # NaN where the signs differ
        {"op": "append_zeros", "inputs": (3,), "count": 1},
    )
    drawn = random_coded_bundle(graph, 9, density=1.0)
    manifest = drawn.manifest.with_graph(graph, (3,))
    rows = [drawn.manifest.coded.index(value) for value in manifest.coded]
    arrays = {name: array[rows] if name.startswith("coding/") else array for name, array in drawn.arrays.items()}
    arrays = {name: array for name, array in arrays.items() if not name.endswith((".scale", ".bias"))}
    signs = np.where(np.arange(40) % 2, np.float32(-3e38), np.float32(3e38))
    arrays |= {"shared/0.scale": np.full(40, 3e38, np.float32), "shared/1.scale": signs}
    bundle = Bundle(manifest, arrays)
    _assert_same(bundle, _images(9) * 10, kernels)
    with np.errstate(all="ignore"):
        values = NumpyEngine(bundle)._features(_images(9) * 10, 0)
    assert set(np.unique(values)) >= {0, 255}
