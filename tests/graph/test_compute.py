"""Operations in numpy equal those of torch."""

from typing import Any, Literal

import numpy as np
import torch
import torch.nn.functional as F
from hypothesis import assume, given
from hypothesis import strategies as st
from torch import Tensor

from prunus.arrays import Values
from prunus.graph.compute import compute
from prunus.graph.operations import LayerNorm, Operation, Pool
from tests.makers.graph_bundles import make_graph

SLOPE = 0.3
sides, seeds = st.integers(1, 9), st.integers(0, 2**32)
few, pads = st.tuples(st.integers(1, 3), st.integers(1, 3)), st.tuples(*[st.integers(0, 2)] * 4)


def _operation(**fields: Any) -> Operation:  # noqa: ANN401  # as in a file
    return make_graph(fields)[0]


def _normal(seed: int, *shape: int) -> Values:
    return np.random.default_rng(seed).standard_normal(shape)


def _torch(array: Values) -> Tensor:
    return torch.from_numpy(array)


def _assert_close(result: Values, expected: Tensor, tolerance: float = 1e-12) -> None:
    assert result.shape == tuple(expected.shape)
    np.testing.assert_allclose(result, expected.numpy(), rtol=0, atol=tolerance * max(1.0, float(expected.abs().max())))


@given(st.data(), seeds)
def test_a_convolution_equals_that_of_torch(data: st.DataObject, seed: int) -> None:
    groups, in_group, out_group = (data.draw(st.integers(1, 3)) for _ in range(3))
    kernel, stride, dilation, padding = (data.draw(strategy) for strategy in (few, few, few, pads))
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
    result = compute(bare, [x], {"weight": weight}, (plain.shape[2], plain.shape[3]))
    _assert_close(result, convolved(x, weight, groups))


@given(st.data(), seeds, st.sampled_from(["max", "mean"]), st.booleans(), st.booleans())
def test_a_pool_equals_that_of_torch(
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
def test_norms_sums_and_products_equal_those_of_torch(height: int, width: int, seed: int) -> None:
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


@given(st.integers(1, 2), st.integers(1, 3), st.integers(1, 2), seeds)
def test_unused_kernels_ignore_overflows_and_used_ones_propagate_them(
    groups: int, in_group: int, out_group: int, seed: int
) -> None:
    rng = np.random.default_rng(seed)
    x = rng.choice([1.0, 1.0, 2.0, -1.0, np.inf, -np.inf, np.nan], (1, groups * in_group, 4, 4))
    weight = rng.choice([-2.0, 0.0, 1.0, 3.0], (groups * out_group, in_group, 2, 2))
    weight *= rng.random((groups * out_group, in_group, 1, 1)) < 0.5
    fields = {"inputs": (0,), "channels": (len(weight), in_group), "kernel": (2, 2), "groups": groups}
    conv = _operation(op="conv", layer="c", **fields)
    with np.errstate(all="ignore"):
        result = compute(conv, [x], {"weight": weight}, (3, 3))
        for output, row, column in np.ndindex(len(weight), 3, 3):
            first = output // out_group * in_group
            terms = [
                weight[output, channel] * x[0, first + channel, row : row + 2, column : column + 2]
                for channel in range(in_group)
                if weight[output, channel].any()
            ]
            np.testing.assert_allclose(result[0, output, row, column], np.sum(terms), equal_nan=True)
