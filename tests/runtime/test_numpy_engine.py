"""The numpy engine computes every operation as torch does."""

import math
import threading
from collections.abc import Callable
from typing import Any, Literal

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from hypothesis import assume, given
from hypothesis import strategies as st
from torch import Tensor

from prunus.arrays import Values
from prunus.bundle.bundle import Bundle
from prunus.errors import DataError
from prunus.graph.activations import ACTIVATIONS, normal_share
from prunus.graph.compute import compute
from prunus.graph.operations import LayerNorm, Operation, Pool
from prunus.runtime.numpy_engine import NumpyEngine
from tests.makers.graph_bundles import make_graph, random_bundle

SLOPE = 0.3
EXPECTED: dict[str, Callable[[Tensor], Tensor]] = {
    "none": lambda x: x,
    "relu": F.relu,
    "relu6": F.relu6,
    "leaky_relu": lambda x: F.leaky_relu(x, SLOPE),
    "elu": lambda x: F.elu(x, SLOPE),
    "silu": F.silu,
    "gelu": F.gelu,
    "gelu_tanh": lambda x: F.gelu(x, approximate="tanh"),
    "mish": F.mish,
    "hard_swish": F.hardswish,
    "hard_sigmoid": F.hardsigmoid,
    "sigmoid": torch.sigmoid,
    "tanh": torch.tanh,
}
sides, seeds = st.integers(1, 9), st.integers(0, 2**32)
few, pads = st.tuples(st.integers(1, 3), st.integers(1, 3)), st.tuples(*[st.integers(0, 2)] * 4)


def _operation(**fields: Any) -> Operation:  # noqa: ANN401  # as in a file
    return make_graph(fields)[0]


def _normal(seed: int, *shape: int) -> Values:
    return np.random.default_rng(seed).standard_normal(shape)


def _torch(array: Values) -> Tensor:
    return torch.from_numpy(array)


def _assert_close(found: Values, expected: Tensor, tolerance: float = 1e-12) -> None:
    assert found.shape == tuple(expected.shape)
    np.testing.assert_allclose(found, expected.numpy(), rtol=0, atol=tolerance * max(1.0, float(expected.abs().max())))


@pytest.mark.parametrize("name", ACTIVATIONS)
def test_an_activation_is_torchs(name: Any) -> None:  # noqa: ANN401  # a literal
    x = np.linspace(-10, 10, 4001)
    tolerance = 3e-8 if name == "gelu" else 1e-14  # torch has erf itself
    _assert_close(ACTIVATIONS[name](x, SLOPE), EXPECTED[name](_torch(x)), tolerance)
    far = np.array([-1e4, -200.0, 200.0, 1e4], dtype=np.float32)
    found = ACTIVATIONS[name](far, SLOPE)
    assert found.dtype == np.float32
    np.testing.assert_allclose(found, EXPECTED[name](_torch(far)).numpy(), rtol=1e-6)


def test_the_normal_distribution_is_known_to_a_hundred_millionth_of_itself_far_out_too() -> None:
    x = np.linspace(-10, 10, 4001)
    expected = [0.5 * math.erfc(-each / math.sqrt(2)) for each in x]
    np.testing.assert_allclose(normal_share(x), expected, rtol=1e-8)


@given(st.data(), seeds)
def test_a_convolution_is_torchs(data: st.DataObject, seed: int) -> None:
    groups, in_group, out_group = (data.draw(st.integers(1, 3)) for _ in range(3))
    kernel, stride, dilation, padding = (data.draw(each) for each in (few, few, few, pads))
    size = (data.draw(sides), data.draw(sides))
    x, out = _normal(seed, 2, groups * in_group, *size), groups * out_group
    top, left, bottom, right = padding
    reach = [(k - 1) * d + 1 for k, d in zip(kernel, dilation, strict=True)]
    assume(size[0] + top + bottom >= reach[0] and size[1] + left + right >= reach[1])
    weight, ones = _normal(seed + 1, out, in_group, *kernel), _normal(seed + 2, out, *kernel)
    scale, bias = _normal(seed + 3, 2, out)

    def convolved(images: Values, kernels: Values, groups: int) -> Tensor:
        padded = F.pad(_torch(images), (left, right, top, bottom))
        return F.conv2d(padded, _torch(kernels), None, stride, 0, dilation, groups)

    plain = convolved(x, weight, groups) + convolved(np.ones((1, 1, *size)), ones[:, None], 1)
    residual = _normal(seed + 4, *plain.shape)
    expected = F.silu(plain * _torch(scale)[:, None, None] + _torch(bias)[:, None, None] + _torch(residual))
    fields = {
        "op": "conv",
        "layer": "c",
        "channels": (out, in_group),
        "kernel": kernel,
        "stride": stride,
        "pads": padding,
    }
    conv = _operation(**fields, dilation=dilation, groups=groups, inputs=(0, 1), activation="silu")
    tensors = {"weight": weight, "ones": ones, "scale": scale, "bias": bias}
    _assert_close(compute(conv, [x, residual], tensors, (plain.shape[2], plain.shape[3])), expected)
    bare = _operation(**fields, dilation=dilation, groups=groups, inputs=(0,))
    found = compute(bare, [x], {"weight": weight}, (plain.shape[2], plain.shape[3]))
    _assert_close(found, convolved(x, weight, groups))


@given(st.data(), seeds, st.sampled_from(["max", "mean"]), st.booleans(), st.booleans())
def test_a_pool_is_torchs(
    data: st.DataObject, seed: int, kind: Literal["max", "mean"], ceil: bool, count_pads: bool
) -> None:
    kernel, stride = data.draw(few), data.draw(few)
    padding = (
        data.draw(st.integers(0, kernel[0] // 2)),
        data.draw(st.integers(0, kernel[1] // 2)),
    )  # torch allows no more
    size = (data.draw(st.integers(3, 9)), data.draw(st.integers(3, 9)))
    x = _normal(seed, 2, 3, *size)
    if kind == "max":
        expected = F.max_pool2d(_torch(x), kernel, stride, padding, ceil_mode=ceil)
    else:
        expected = F.avg_pool2d(_torch(x), kernel, stride, padding, ceil, count_pads)
    pool = Pool(
        op="pool",
        inputs=(0,),
        kind=kind,
        kernel=kernel,
        stride=stride,
        pads=(*padding, *padding),
        ceil=ceil,
        count_pads=count_pads,
    )
    _assert_close(compute(pool, [x], {}, (expected.shape[2], expected.shape[3])), expected)


def test_a_pool_may_pad_one_side_only() -> None:
    x = _normal(0, 1, 2, 5, 5)
    pool = _operation(op="pool", inputs=(0,), kind="max", kernel=(3, 3), stride=(2, 2), pads=(0, 0, 1, 1))
    expected = F.max_pool2d(F.pad(_torch(x), (0, 1, 0, 1), value=-torch.inf), 3, 2)
    _assert_close(compute(pool, [x], {}, (2, 2)), expected)


@given(sides, sides, seeds)
def test_norms_sums_and_products_are_torchs(height: int, width: int, seed: int) -> None:
    x, y, (scale, bias) = (
        _normal(seed, 2, 4, height, width),
        _normal(seed + 1, 2, 4, height, width),
        _normal(seed, 2, 4),
    )
    a, b, size = _torch(x), _torch(y), (height, width)
    scaled = a * _torch(scale)[:, None, None] + _torch(bias)[:, None, None]
    tensors = {"scale": scale, "bias": bias}
    _assert_close(
        compute(_operation(op="affine", inputs=(0,), activation="elu", slope=SLOPE), [x], tensors, size),
        F.elu(scaled, SLOPE),
    )
    norm = LayerNorm(op="layer_norm", inputs=(0,), eps=1e-3)
    normed = F.layer_norm(a.permute(0, 2, 3, 1), (4,), _torch(scale), _torch(bias), 1e-3).permute(0, 3, 1, 2)
    _assert_close(compute(norm, [x], tensors, size), normed, 1e-10)
    _assert_close(compute(_operation(op="add", inputs=(0, 1), activation="relu"), [x, y], {}, size), F.relu(a + b))
    _assert_close(compute(_operation(op="mul", inputs=(0, 1)), [x, y], {}, size), a * b)
    mean = compute(_operation(op="mean", inputs=(0,)), [y], {}, (1, 1))
    _assert_close(mean, b.mean((2, 3), keepdim=True))
    _assert_close(compute(_operation(op="mul", inputs=(0, 1)), [x, mean], {}, size), a * b.mean((2, 3), keepdim=True))
    _assert_close(compute(_operation(op="cat", inputs=(0, 1, 0)), [x, y, x], {}, size), torch.cat([a, b, a], 1))
    more = compute(_operation(op="append_zeros", inputs=(0,), count=2), [x], {}, size)
    _assert_close(more, F.pad(a, (0, 0, 0, 0, 0, 2)))


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


def _by_hand(bundle: Bundle, images: Values, domain: str) -> Tensor:
    """Compute the graph above with torch, operation by operation, in float64."""

    def tensor(number: int, role: str, value: float) -> Tensor:
        found = bundle.tensor(domain, number, role)
        return torch.tensor(value).double() if found is None else _torch(found).double()

    def conv(x: Tensor, number: int, layer: str, padding: tuple[int, int, int, int], **settings: Any) -> Tensor:  # noqa: ANN401
        weight = _torch(bundle.weight(layer, bundle.mask(domain, layer))).double()
        ones = (tensor(number, "ones", 0.0) + torch.zeros(len(weight), *weight.shape[2:], dtype=torch.float64))[:, None]
        plane = torch.ones_like(x[:1, :1])
        plain = F.conv2d(F.pad(x, padding), weight, **settings)
        plain = plain + F.conv2d(F.pad(plane, padding), ones, stride=settings.get("stride", 1))
        return plain * tensor(number, "scale", 1.0).reshape(-1, 1, 1) + tensor(number, "bias", 0.0).reshape(-1, 1, 1)

    stem = F.relu(conv(_torch(images).double(), 0, "stem", (1, 1, 1, 1)))
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
        found = engine.logits(images, domain)
        assert found.dtype == np.float32
        _assert_close(found, _by_hand(bundle, images, domain), 1e-5)


def test_convolving_some_rows_at_a_time_gives_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    bundle, images = random_bundle(GRAPH, 8), _normal(0, 2, 3, 8, 8).astype(np.float32)
    expected = NumpyEngine(bundle).logits(images, "a")
    for most in (1, 500, 1000):  # one row, several, an odd rest
        monkeypatch.setattr("prunus.graph.compute.MOST_NUMBERS", most)
        np.testing.assert_allclose(NumpyEngine(bundle).logits(images, "a"), expected, rtol=1e-5, atol=1e-6)


def test_threads_get_the_answers_that_one_thread_gets() -> None:
    bundle, images = random_bundle(GRAPH, 8), _normal(0, 2, 3, 8, 8).astype(np.float32)
    expected = {domain: NumpyEngine(bundle).logits(images, domain) for domain in bundle.domains}
    engine = NumpyEngine(bundle)
    found: list[tuple[str, Values]] = []

    def work() -> None:
        found.extend((domain, engine.logits(images, domain)) for domain in (*bundle.domains, *bundle.domains))

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 16
    assert all(np.array_equal(logits, expected[domain]) for domain, logits in found)


def test_no_images_give_no_answers_and_those_that_are_not_finite_are_refused() -> None:
    engine = NumpyEngine(random_bundle(GRAPH, 8))
    assert engine.logits(np.zeros((0, 3, 8, 8), np.float32), "a").shape == (0, 3)
    for wrong in (np.nan, np.inf, -np.inf):
        with pytest.raises(DataError, match="not finite"):
            engine.logits(np.full((1, 3, 8, 8), wrong, np.float32), "a")
