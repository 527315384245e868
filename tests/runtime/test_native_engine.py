"""The native kernels of every instruction set compute what the graph describes."""

from pathlib import Path
from typing import Any, get_args

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from prunus.arrays import DType, Floats
from prunus.bundle.bundle import Bundle
from prunus.bundle.file import read_bundle, write_bundle
from prunus.errors import BundleError
from prunus.graph.operations import OPERATIONS, ActivationName
from prunus.runtime import _native
from prunus.runtime.native_engine import STEPS, NativeEngine
from prunus.runtime.numpy_engine import NumpyEngine
from tests.makers.graph_bundles import convolution, exact_logits, make_graph, random_bundle, varied_graph

KERNELS = _native.available_kernels()
TOLERANCE = 2e-5  # of the largest logit
ONE = {"kernel": (1, 1), "pads": (0, 0, 0, 0)}
sides, seeds, counts = st.integers(1, 3), st.integers(0, 2**32 - 1), st.integers(1, 11)
channels = st.one_of(st.integers(1, 9), st.sampled_from([16, 40, 130]))
densities = st.sampled_from([0.0, 0.1, 0.5, 0.9, 1.0])
kernel_sides = st.sampled_from([1, 1, 2, 3, 3, 3, 5, 7])
pixels = st.integers(1, 20)
activations = st.sampled_from(get_args(ActivationName))


def _images(bundle: Bundle, count: int, seed: int = 0) -> Floats:
    size = bundle.manifest.image_size
    return np.random.default_rng(seed).standard_normal((count, 3, size, size)).astype(np.float32)


def _assert_exact(bundle: Bundle, images: Floats, kernels: str, threads: int = 1) -> None:
    engine = NativeEngine(bundle, threads, kernels)
    for domain in bundle.domains:
        expected, logits = exact_logits(bundle, images, domain), engine.logits(images, domain)
        assert logits.shape == expected.shape
        scale = max(1e-3, float(np.abs(expected).max()))
        np.testing.assert_allclose(logits, expected, rtol=0, atol=TOLERANCE * scale, err_msg=f"{kernels}, {threads}")


def _source(height: int, width: int, count: int) -> tuple[int, dict[str, Any]]:
    """Return the image size for a value of any shape, and an operation that computes it."""
    size = max(height, width)
    kernel = (size - height + 1, size - width + 1)
    return size, convolution("source", [0], (count, 3), kernel=kernel, pads=(0, 0, 0, 0), activation="tanh")


def _draw_convolution(data: st.DataObject) -> tuple[int, list[dict[str, Any]]]:
    groups = data.draw(st.sampled_from([1, 1, 2, 3, 8]))
    in_group, out_group = data.draw(channels if groups < 8 else sides), data.draw(channels if groups < 8 else sides)
    kernel, stride = ((data.draw(strategy), data.draw(strategy)) for strategy in (kernel_sides, sides))
    dilation = data.draw(st.sampled_from([(1, 1), (1, 1), (2, 2), (1, 3)]))
    pads = data.draw(
        st.one_of(
            st.just((kernel[0] // 2, kernel[1] // 2) * 2),
            st.just((0, 0, 0, 0)),
            st.tuples(*[st.integers(0, k) for k in (*kernel, *kernel)]),
        )
    )
    height, width = data.draw(pixels), data.draw(pixels)
    size, source = _source(height, width, groups * in_group)
    settings = {"kernel": kernel, "stride": stride, "pads": pads, "dilation": dilation}
    operations = [source, convolution("under_test", [1], (groups * out_group, in_group), groups=groups, **settings)]
    operations[1] |= {"activation": data.draw(activations), "slope": 0.3}
    if data.draw(st.booleans()):  # a convolution of the same windows makes the residual
        operations.insert(1, convolution("residual", [1], (groups * out_group, groups * in_group), **settings))
        operations[2]["inputs"] = (1, 2)
    return size, operations


@pytest.mark.parametrize("kernels", KERNELS)
@given(st.data(), seeds, counts, densities)
def test_any_convolution_is_exact(kernels: str, data: st.DataObject, seed: int, count: int, density: float) -> None:
    size, operations = _draw_convolution(data)
    shares = {"source": 1.0, "residual": 0.5, "under_test": density}
    try:
        bundle = random_bundle(make_graph(*operations), size, density=shares, seed=seed)
    except BundleError:  # its windows are larger than its image
        assume(False)
    _assert_exact(bundle, _images(bundle, count, seed), kernels, data.draw(st.sampled_from([1, 2])))


@pytest.mark.parametrize("kernels", KERNELS)
@given(st.data(), seeds, counts)
def test_any_pool_is_exact(kernels: str, data: st.DataObject, seed: int, count: int) -> None:
    size, source = _source(data.draw(pixels), data.draw(pixels), data.draw(channels))
    kernel, stride = ((data.draw(strategy), data.draw(strategy)) for strategy in (kernel_sides, sides))
    pads = data.draw(st.tuples(*[st.integers(0, k - 1) for k in (*kernel, *kernel)]))
    pool: dict[str, Any] = {"op": "pool", "inputs": (1,), "kernel": kernel, "stride": stride, "pads": pads}
    pool |= {key: data.draw(st.booleans()) for key in ("ceil", "count_pads")}
    try:
        graph = make_graph(source, pool | {"kind": data.draw(st.sampled_from(["max", "mean"]))})
        bundle = random_bundle(graph, size, density=1.0, seed=seed)
    except BundleError:
        assume(False)
    _assert_exact(bundle, _images(bundle, count, seed), kernels)


OTHERS: dict[str, list[dict[str, Any]]] = {
    "affine": [{"op": "affine", "inputs": (1,), "activation": "leaky_relu", "slope": 0.1}],
    # where channels are nearly equal, a small eps enlarges the rounding of the norm's input; the image has none
    "layer_norm": [{"op": "layer_norm", "inputs": (1,), "eps": 1e-2}],
    "layer_norm of the image": [{"op": "layer_norm", "inputs": (0,), "eps": 1e-5}],
    "add": [{"op": "affine", "inputs": (1,)}, {"op": "add", "inputs": (1, 2), "activation": "relu"}],
    "add to itself": [{"op": "add", "inputs": (1, 1), "activation": "gelu"}],
    "mul": [{"op": "affine", "inputs": (1,)}, {"op": "mul", "inputs": (1, 2), "activation": "silu"}],
    "mul by one pixel": [{"op": "mean", "inputs": (1,)}, {"op": "mul", "inputs": (1, 2)}],
    "cat": [{"op": "affine", "inputs": (1,)}, {"op": "cat", "inputs": (2, 1, 2)}],
    "append_zeros": [{"op": "append_zeros", "inputs": (1,), "count": 5}],
    "append no zeros": [{"op": "append_zeros", "inputs": (1,), "count": 0}],
    "mean": [{"op": "mean", "inputs": (1,)}],
    "values that nobody reads": [{"op": "mean", "inputs": (1,)}, {"op": "affine", "inputs": (1,)}],
}


@pytest.mark.parametrize("kernels", KERNELS)
@pytest.mark.parametrize("name", OTHERS)
@settings(max_examples=12)
@given(st.tuples(pixels, pixels, channels), counts, seeds)
def test_every_other_operation_is_exact(
    kernels: str, name: str, shape: tuple[int, int, int], count: int, seed: int
) -> None:
    size, source = _source(*shape)
    bundle = random_bundle(make_graph(source, *OTHERS[name]), size, density=1.0, seed=seed)
    _assert_exact(bundle, _images(bundle, count, seed), kernels, 1 + seed % 2)


@pytest.mark.parametrize("kernels", KERNELS)
@pytest.mark.parametrize("name", get_args(ActivationName))
def test_every_activation_is_exact(kernels: str, name: str) -> None:
    graph = make_graph({"op": "affine", "inputs": (0,), "activation": name, "slope": 0.3})
    bundle = random_bundle(graph, 9)
    for wide in (0.01, 1, 10, 30):
        _assert_exact(bundle, _images(bundle, 2) * np.float32(wide), kernels)


@pytest.mark.parametrize("kernels", KERNELS)
@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("count", range(1, 12))
def test_whole_graphs_are_exact(kernels: str, threads: int, count: int) -> None:
    bundle = random_bundle(varied_graph(count), 12, density=(0.0, 0.2, 0.6, 1.0)[count % 4], seed=count)
    _assert_exact(bundle, _images(bundle, count), kernels, threads)


@pytest.mark.parametrize("kernels", KERNELS)
@pytest.mark.parametrize("threads", [1, 2, 3])
def test_neither_other_images_nor_other_domains_change_an_answer(kernels: str, threads: int) -> None:
    bundle = random_bundle(varied_graph(3), 12, domains=("a", "b", "c"), density=0.4)
    images = _images(bundle, 11)
    alone = {domain: NativeEngine(bundle, threads, kernels).logits(images, domain) for domain in bundle.domains}
    assert not np.allclose(alone["a"], alone["b"], atol=0.1)
    engine = NativeEngine(bundle, threads, kernels)
    for index, domain in enumerate("abcacbbacba"):
        one = engine.logits(images[index : index + 1], domain)
        assert np.array_equal(one, alone[domain][index : index + 1])
        assert np.array_equal(engine.logits(images, domain), alone[domain])


@pytest.mark.parametrize("kernels", KERNELS)
@pytest.mark.parametrize("side", [9, 12, 13, 14, 16, 20])
def test_threads_change_no_bit_of_a_sparse_layer(kernels: str, side: int) -> None:
    graph = make_graph(
        convolution("stem", [0], (40, 3)),
        convolution("narrow", [1], (130, 40), **ONE),
        convolution("wide", [2], (24, 130), **ONE),
    )
    bundle = random_bundle(graph, side, density=0.3, seed=side)
    images = _images(bundle, 2)
    alone, *others = (NativeEngine(bundle, threads, kernels).logits(images, "a") for threads in (1, 2, 3, 5))
    for other in others:
        assert np.array_equal(other, alone)


@pytest.mark.parametrize("kernels", KERNELS)
@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
@pytest.mark.parametrize(("density", "count"), [(0.2, 1), (0.8, 4), (1.0, 9)])
def test_half_precision_is_computed_with_as_it_is_stored(
    tmp_path: Path, kernels: str, dtype: DType, density: float, count: int
) -> None:
    write_bundle(tmp_path / "m.prunus", random_bundle(varied_graph(4), 12, density=density, seed=count), dtype)
    bundle = read_bundle(tmp_path / "m.prunus")
    for threads in (1, 2):
        _assert_exact(bundle, _images(bundle, count), kernels, threads)
    precise = random_bundle(varied_graph(4), 12, density=density, seed=count)
    assert not np.array_equal(
        exact_logits(precise, _images(precise, 1), "a"), exact_logits(bundle, _images(bundle, 1), "a")
    )


@pytest.mark.parametrize("kernels", KERNELS)
@pytest.mark.parametrize("density", [0.1, 0.5, 0.7, 1.0])
def test_more_inputs_than_a_byte_counts_are_told_apart(kernels: str, density: float) -> None:
    graph = make_graph(
        convolution("wide", [0], (700, 3)),
        convolution("many", [1], (40, 700), **ONE),
        convolution("grouped", [1], (8, 175), groups=4, **ONE)
        if density < 1
        else convolution("same", [1], (9, 700), **ONE),
        {"op": "cat", "inputs": (2, 3, 2)},
    )
    bundle = random_bundle(graph, 5, density={"wide": 1.0, "many": density, "grouped": density, "same": density})
    _assert_exact(bundle, _images(bundle, 2), kernels)


@pytest.mark.parametrize("groups", [1, 2])
@pytest.mark.parametrize("side", [1, 3])
def test_an_overflow_is_seen_by_domains_that_read_it_and_by_no_other(groups: int, side: int) -> None:
    window = {"kernel": (side, side), "pads": (side // 2,) * 4}
    graph = make_graph(
        convolution("stem", [0], (16, 3)), convolution("next", [1], (4, 16 // groups), groups=groups, **window)
    )
    drawn = random_bundle(graph, 6, density={"stem": 1.0, "next": 0.2}, seed=3)
    reads = {domain: drawn.mask(domain, "next").reshape(groups, -1, 16 // groups).any(1).ravel() for domain in "ab"}
    channel = int(np.flatnonzero(reads["a"] & ~reads["b"])[0])
    scale = np.where(np.arange(16) == channel, 3e38, 1).astype(np.float32)
    bundle = Bundle(drawn.manifest, drawn.arrays | {f"norm/{domain}/0.scale": scale for domain in drawn.domains})
    images = 10 * _images(bundle, 3)
    engines: list[NumpyEngine | NativeEngine] = [NativeEngine(bundle, 1, kernels) for kernels in KERNELS]
    for engine in [NumpyEngine(bundle), *engines]:
        assert not np.isfinite(engine.logits(images, "a")).any()
        assert np.isfinite(engine.logits(images, "b")).all()


@pytest.mark.parametrize("kernels", KERNELS)
@pytest.mark.parametrize(
    ("side", "first", "second"),
    [
        (4, {"stride": (2, 2), **ONE}, {"stride": (3, 3), **ONE}),
        (5, {"stride": (3, 3), **ONE}, {"stride": (4, 4), **ONE}),
        (
            8,
            {"stride": (2, 1), "kernel": (2, 1), "pads": (0,) * 4},
            {"stride": (1, 2), "kernel": (1, 2), "pads": (0,) * 4},
        ),
        (8, {"stride": (2, 2)}, {"stride": (2, 2), "kernel": (2, 2), "pads": (0,) * 4}),
        (9, {"stride": (2, 2)}, {"stride": (3, 3)}),
    ],
)
def test_one_value_is_read_with_several_strides(
    kernels: str, side: int, first: dict[str, Any], second: dict[str, Any]
) -> None:
    readers = [first, second, first]
    graph = make_graph(
        convolution("stem", [0], (5, 3)),
        *(convolution(f"reader{number}", [1], (4, 5), **fields) for number, fields in enumerate(readers)),
        *({"op": "mean", "inputs": (number,)} for number in (2, 3, 4)),
        {"op": "cat", "inputs": (5, 6, 7)},
    )
    bundle = random_bundle(graph, side, density=0.7)
    for threads in (1, 2):
        _assert_exact(bundle, _images(bundle, 2), kernels, threads)


def test_a_handmade_model_whose_parts_do_not_fit_each_other_is_refused() -> None:
    graph = make_graph(convolution("stem", [0], (8, 3)), convolution("next", [1], (4, 8), **ONE))
    bundle = random_bundle(graph, 6, density=0.5)
    odd = np.zeros(4 * 24 + 1, np.uint8)[1:].view(np.float32)
    for name, array, message in [
        ("kernels/next", bundle.arrays["kernels/next"][:-1], "number of kernels differs from the number of kept bits"),
        ("mask/a/next", np.zeros(9, np.uint8), "used has the wrong size"),
        ("kernels/next", bundle.arrays["kernels/next"].astype(np.int32), "weights must be float32, float16, or"),
        ("norm/a/0.scale", odd[:8], "not aligned to its element size"),
    ]:
        with pytest.raises(BundleError, match=f"the native engine cannot load this model: .*{message}"):
            NativeEngine(Bundle(bundle.manifest, bundle.arrays | {name: array}))


def test_what_a_program_reads_cannot_be_changed_any_more() -> None:
    bundle = random_bundle(make_graph(convolution("only", [0], (8, 3), **ONE)), 6, density=0.5)
    engine = NativeEngine(bundle)
    for array in bundle.arrays.values():
        with pytest.raises(ValueError, match="read-only"):
            array[...] = 255
    assert np.isfinite(engine.logits(_images(bundle, 1), "a")).all()


@pytest.mark.parametrize("kernels", KERNELS)
@pytest.mark.parametrize("side", [2, 4, 7, 8, 10, 14])  # planes whose last vector is full, half full and nearly empty
@pytest.mark.parametrize("outputs", [6, 11, 24])
def test_full_layers_are_exact_on_planes_of_any_size(kernels: str, side: int, outputs: int) -> None:
    graph = make_graph(convolution("stem", [0], (37, 3)), convolution("full", [1], (outputs, 37), **ONE))
    bundle = random_bundle(graph, side, density=1.0)
    assert NativeEngine(bundle, 1, kernels).paths("a")[1] == ("full", "dense pointwise")
    for threads in (1, 2):
        _assert_exact(bundle, _images(bundle, 3), kernels, threads)


def test_every_way_to_convolve_is_taken_and_named() -> None:
    graph = make_graph(
        convolution("direct", [0], (30, 3)),
        convolution("depthwise", [1], (30, 1), groups=30),
        convolution("pointwise", [2], (32, 30), **ONE),
        convolution("dense pointwise", [3], (32, 32), **ONE),
        convolution("pointwise in fours", [4], (32, 32), **ONE),
    )
    density = dict.fromkeys(_layers(graph), 1.0) | dict.fromkeys(("pointwise", "pointwise in fours"), 0.1)
    bundle = random_bundle(graph, 8, density=density, lanes=4)
    for kernels in KERNELS:
        engine = NativeEngine(bundle, 1, kernels)
        assert engine.name == kernels
        assert engine.paths("b") == [(layer, layer) for layer in _layers(graph)]
        _assert_exact(bundle, _images(bundle, 2), kernels)


def _layers(graph: Any) -> list[str]:  # noqa: ANN401
    return [operation.layer for operation in graph if operation.op == "conv"]


@pytest.mark.parametrize("kernels", KERNELS)
@pytest.mark.parametrize("density", [0.1, 0.6, 1.0])
def test_layers_of_many_channels_are_exact(kernels: str, density: float) -> None:
    graph = make_graph(
        convolution("wide", [0], (300, 3), stride=(2, 2)),
        convolution("narrow", [1], (150, 300), **ONE, activation="relu"),
        convolution("windows", [2], (140, 150)),
        convolution("grouped", [3], (280, 70), groups=2, **ONE),
        {"op": "mean", "inputs": (4,)},
        convolution("rows", [5], (70, 280), **ONE),
    )
    bundle = random_bundle(graph, 11, density=density)
    _assert_exact(bundle, _images(bundle, 3), kernels, 2)


@pytest.mark.parametrize("kernels", KERNELS)
def test_a_single_pixel_is_enough(kernels: str) -> None:
    graph = make_graph(
        convolution("first", [0], (8, 3)),
        convolution("strided", [1], (8, 8), stride=(2, 2)),
        {"op": "pool", "inputs": (2,), "kind": "max", "kernel": (3, 3), "stride": (2, 2), "pads": (1, 1, 1, 1)},
        convolution("point", [3], (8, 8), **ONE),
        convolution("depthwise", [4], (8, 1), groups=8),
        {"op": "mean", "inputs": (5,)},
    )
    bundle = random_bundle(graph, 1, density=0.7)
    _assert_exact(bundle, _images(bundle, 9), kernels)


def test_every_activation_has_its_name_on_the_native_side_and_an_unknown_one_lists_them() -> None:
    names = get_args(ActivationName)
    assert sorted(_native.activation_names()) == sorted(names)
    program = _native.Program([(3, 4, 4), (3, 4, 4)], 1, 1, "auto")
    with pytest.raises(ValueError, match=rf"unknown activation 'rulu'; known: .*{names[1]}.*{names[-1]}"):
        program.add_sum((0, 0), "rulu", 0.0)


def test_every_operation_has_a_step() -> None:
    assert set(STEPS) == set(OPERATIONS)


def test_no_images_give_no_answers() -> None:
    bundle = random_bundle(varied_graph(0), 12)
    assert NativeEngine(bundle).logits(_images(bundle, 0), "b").shape == (0, 3)
