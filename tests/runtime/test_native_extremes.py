"""8-bit steps at the ends of their ranges: the longest sums, saturated codes, zeros at both ends, for every kernel."""

from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from prunus.arrays import Floats
from prunus.runtime import _native
from tests.makers.coded_chains import Chain, Integers, convolved, packed, rounded, stored

KERNELS = [
    *_native.available_kernels(),
    *(
        pytest.param(name, marks=pytest.mark.skip(reason=f"{name} was compiled, but this processor cannot run it"))
        for name in _native.lacking_kernels()
    ),
]
MOST_PRODUCTS = (2**31 - 1) // (255 * 127)
zeros = st.sampled_from([0, 255, 1, 254, 77])


def extreme_codes(rng: np.random.Generator, shape: tuple[int, ...]) -> Integers:
    """Return codes of which some planes are all 0, some all 255, some both at random, and some anything."""
    kinds = rng.integers(0, 4, shape[0])
    ends = [np.zeros(shape), np.full(shape, 255), rng.choice([0, 255], shape), rng.integers(0, 256, shape)]
    return np.choose(kinds.reshape(-1, *[1] * (len(shape) - 1)), ends).astype(np.int64)


def dense_convolution(chain: Chain, weights: Integers, fields: dict[str, Any], zero: int, *numbers: Floats) -> None:
    everything = np.ones(weights.shape[:2], bool)
    bits, kernels = stored(weights, everything, fields["groups"])
    window = _native.Window(weights.shape[2:], fields["stride"], fields["pads"], fields["dilation"])
    number = chain.program.add_integer_convolution([1], fields["groups"], window, bits, kernels)
    chain.program.set_integer_convolution(number, 0, packed(everything), zero, numbers[0], numbers[1], 0.0, 0, 255)


@pytest.mark.parametrize("kernels", KERNELS)
@pytest.mark.parametrize("side", [1, 3])
@pytest.mark.parametrize("zero", [0, 255])
def test_the_longest_sums_do_not_overflow(kernels: str, side: int, zero: int) -> None:
    inputs = MOST_PRODUCTS // side**2
    codes = np.full((inputs, side, side), 255, np.int64)
    weights = np.full((4, inputs, side, side), 127, np.int64)
    weights[1] = -127
    weights[2, : inputs // 2] = -127  # as large on the way, and small in the end
    weights[3, inputs // 2 :] = -127
    fields = {"stride": (1, 1), "pads": (0, 0, 0, 0), "dilation": (1, 1), "groups": 1}
    sums = np.tensordot(weights, codes, 3)
    assert 2**31 - 1 - sums.max() < 255 * 127 * side**2
    multipliers = np.array([200, -200, 100, 100], np.float32) / np.float32(2**31)
    offsets = np.array([3, 4, 5, 6], np.float32)
    expected = rounded(sums.astype(np.float32) * multipliers + offsets)
    assert (expected[:2] > 200).all()  # a sum that wrapped around would be clamped to 0
    chain = Chain([codes.shape, (4, 1, 1)], [zero, 9], kernels)
    dense_convolution(chain, weights, fields, zero, multipliers, offsets)
    assert np.array_equal(chain.codes(codes).ravel(), expected)


@pytest.mark.parametrize("kernels", KERNELS)
@given(st.data())
def test_windows_of_three_columns_over_small_inputs_are_exact(kernels: str, data: st.DataObject) -> None:
    draw = data.draw
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    rows, stride = draw(st.integers(1, 4)), (draw(st.integers(1, 3)), draw(st.integers(1, 2)))
    pads = draw(st.tuples(*[st.integers(0, 2)] * 4))
    inputs, outputs, height, width = (draw(st.integers(1, most)) for most in (9, 9, 12, 40))
    assume(height + pads[0] + pads[2] >= rows and width + pads[1] + pads[3] >= 3)
    zero = draw(zeros)
    codes = extreme_codes(rng, (inputs, height, width))
    weights = rng.choice([-127, 127, 0, 5], (outputs, inputs, rows, 3)).astype(np.int64)
    fields = {"stride": stride, "pads": pads, "dilation": (1, 1), "groups": 1}
    sums = convolved(codes, weights, fields, zero)
    multipliers = rng.uniform(-0.01, 0.01, outputs).astype(np.float32)
    offsets = rng.uniform(-50, 300, outputs).astype(np.float32)
    expected = rounded(sums.astype(np.float32) * multipliers[:, None, None] + offsets[:, None, None])
    chain = Chain([codes.shape, expected.shape], [zero, draw(zeros)], kernels, draw(st.integers(1, 2)))
    dense_convolution(chain, weights, fields, zero, multipliers, offsets)
    assert np.array_equal(chain.codes(codes), expected)


@pytest.mark.parametrize("kernels", KERNELS)
@given(st.data())
def test_attention_over_extreme_codes_is_exact(kernels: str, data: st.DataObject) -> None:
    draw = data.draw
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    dim, width, pixels = (draw(st.integers(1, most)) for most in (20, 9, 40))
    zero, result_zero = draw(zeros), draw(zeros)
    codes = extreme_codes(rng, (2 * dim + width, 1, pixels))
    q, k, v = np.split(codes[:, 0], [dim, 2 * dim])
    scores = (k - 128).T @ (q - zero)  # [key, query]
    weights = 255 * (scores == scores.max(0))  # with a multiplier of 16, all others are rounded to 0
    factor = np.float32(rng.uniform(-3, 3))
    sums = ((v - zero) @ weights).astype(np.float32)
    expected = rounded(sums * (factor / weights.sum(0).astype(np.float32)) + np.float32(result_zero))
    chain = Chain([codes.shape, (width, 1, pixels)], [zero, result_zero], kernels, draw(st.integers(1, 2)))
    chain.program.add_integer_attention(
        (1, 1, 1),
        1,
        (dim, width),
        (0, dim, 2 * dim),
        (0, 0, 0),
        0.0,
        [],
        [],
        [(zero, zero, result_zero)],
        [(16.0, float(factor))],
        [None],
    )
    assert np.array_equal(chain.codes(codes)[:, 0], expected)


@pytest.mark.parametrize("kernels", KERNELS)
@given(st.data())
def test_pools_of_any_window_are_exact(kernels: str, data: st.DataObject) -> None:
    draw = data.draw
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    kernel, stride = draw(st.tuples(*[st.integers(1, 6)] * 2)), draw(st.tuples(*[st.integers(1, 3)] * 2))
    pads = draw(st.tuples(*[st.integers(0, side // 2) for side in (*kernel, *kernel)]))
    is_max, count_pads, zero = draw(st.booleans()), draw(st.booleans()), draw(zeros)
    channels, height, width = (draw(st.integers(1, most)) for most in (4, 12, 40))
    sides = [
        (side + pads[axis] + pads[axis + 2] - kernel[axis]) // stride[axis] + 1
        for axis, side in enumerate((height, width))
    ]
    assume(min(sides) > 0)
    codes = extreme_codes(rng, (channels, height, width))
    factor, offset = draw(st.sampled_from([(1.0, float(zero)), (1.5, 80.0), (-2.5, 255.0)]))
    expected = np.zeros((channels, *sides), np.int64)
    for r, c in np.ndindex(*sides):
        top, left = r * stride[0] - pads[0], c * stride[1] - pads[1]
        window = codes[:, max(0, top) : top + kernel[0], max(0, left) : left + kernel[1]]
        count = kernel[0] * kernel[1] if count_pads else window[0].size
        sums = (window - zero).sum((1, 2)).astype(np.float32)
        expected[:, r, c] = (
            window.max((1, 2)) if is_max else rounded(sums * np.float32(factor / count) + np.float32(offset))
        )
    chain = Chain([codes.shape, expected.shape], [zero, zero], kernels, draw(st.integers(1, 2)))
    spec = _native.Window(kernel, stride, pads, (1, 1))
    chain.program.add_integer_pool(1, spec, is_max, count_pads, [zero], [(factor, offset)])
    assert np.array_equal(chain.codes(codes), expected)
