"""Native steps over 8-bit codes compute what their formulas say, and refuse numbers that do not fit."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from prunus.runtime import _native
from tests.makers.coded_chains import Chain, Integers, Shape, convolved, packed, rounded, stored

# Legend: C = channels, H = height, W = width, O = outputs, I = inputs of a group, KL = rows and columns of a kernel
KERNELS = _native.available_kernels()
F = np.float32
zeros_of_codes = st.sampled_from([0, 255, 77])


@pytest.mark.parametrize("kernels", KERNELS)
@given(st.data())
def test_any_convolution_has_the_codes_of_its_formula(kernels: str, data: st.DataObject) -> None:
    draw = data.draw
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    groups = draw(st.sampled_from([1, 1, 2, 5]))
    inputs, outputs = draw(st.integers(1, 6)), groups * draw(st.integers(1, 4))
    kernel, stride = (
        draw(st.tuples(sides, sides)) for sides in (st.sampled_from([1, 1, 2, 3, 3, 5]), st.integers(1, 3))
    )
    pads = draw(st.tuples(*[st.integers(0, side) for side in (*kernel, *kernel)]))
    fields: dict[str, Any] = {
        "stride": stride,
        "pads": pads,
        "dilation": draw(st.sampled_from([(1, 1), (2, 1), (1, 2)])),
        "groups": groups,
    }
    height, width, zero = draw(st.integers(1, 9)), draw(st.integers(1, 20)), draw(zeros_of_codes)
    reach = [(side - 1) * gap + 1 for side, gap in zip(kernel, fields["dilation"], strict=True)]
    assume(height + pads[0] + pads[2] >= reach[0] and width + pads[1] + pads[3] >= reach[1])

    extreme = draw(st.booleans())
    codes = (
        rng.integers(0, 256, (groups * inputs, height, width))
        if not extreme
        else np.full((groups * inputs, height, width), 255)
    )
    weights = rng.choice([-127, 127] if extreme else np.arange(-127, 128), (outputs, inputs, *kernel)).astype(np.int64)
    kept, used = rng.random((outputs, inputs)) < 0.7, rng.random((outputs, inputs)) < 0.7
    sums = convolved(codes, weights * (kept & used)[..., None, None], fields, zero)
    multipliers = rng.uniform(-0.01, 0.01, outputs).astype(np.float32)
    offsets = rng.uniform(-50, 300, outputs).astype(np.float32)
    low, high = draw(st.sampled_from([(0, 255), (40, 255), (40, 90)]))
    expected = rounded(sums.astype(np.float32) * multipliers[:, None, None] + offsets[:, None, None], low, high)

    chain = Chain([codes.shape, expected.shape], [zero, draw(zeros_of_codes)], kernels, draw(st.integers(1, 2)))
    bits, kept_kernels = stored(weights, kept, groups)
    window = _native.Window(kernel, stride, pads, fields["dilation"])
    number = chain.program.add_integer_convolution([1], groups, window, bits, kept_kernels)
    in_order = stored(used.astype(np.int64)[..., None, None], kept, groups)[1] if np.prod(kernel) == 1 else None
    if in_order is None:
        repeated = np.broadcast_to(used[..., None, None], weights.shape).astype(np.int64)
        in_order = stored(repeated, kept, groups)[1][:, 0]
    chain.program.set_integer_convolution(number, 0, packed(in_order), zero, multipliers, offsets, 0.0, low, high)
    assert np.array_equal(chain.codes(codes), expected)
    assert chain.program.path(number, 0).startswith("integer ")


ALL = np.arange(256).reshape(1, 16, 16)
PLANES = np.random.default_rng(3).integers(0, 256, (5, 9, 21))


@pytest.mark.parametrize("kernels", KERNELS)
def test_halves_are_rounded_to_even_codes_and_the_rest_is_clamped(kernels: str) -> None:
    for factor, offset, low, high in [
        (0.5, 0.0, 0, 255),
        (1.0, 0.5, 3, 250),
        (-3.0, 400.5, 10, 10),
        (2.0, -100.0, 0, 200),
    ]:
        chain = Chain([ALL.shape, ALL.shape], [0, 9], kernels)
        multiplier, shift = (np.array([number], np.float32) for number in (factor, offset))
        chain.program.add_integer_affine(1, [multiplier], [shift], [low], [high])
        assert np.array_equal(chain.codes(ALL), rounded(F(factor) * ALL.astype(np.float32) + F(offset), low, high))


def _sum(codes: Integers, program: _native.Program) -> Integers:
    program.add_integer_sum([1, 1], [(0.3, -1.7, 260.25)], [5], [255])
    x = codes.astype(np.float32)
    return rounded(F(0.3) * x + F(-1.7) * x + F(260.25), 5)


def _product(codes: Integers, program: _native.Program) -> Integers:
    program.add_integer_product([1, 1], [(100, 100)], [(0.01, 31.5)], [0], [255])
    return rounded(((codes - 100) ** 2).astype(np.float32) * F(0.01) + F(31.5))


def _table(codes: Integers, program: _native.Program) -> Integers:
    table = np.random.default_rng(0).permutation(256).astype(np.uint8)
    program.add_table(1, [table])
    return table[codes].astype(np.int64)


def _join(codes: Integers, program: _native.Program) -> Integers:
    table = np.arange(256, dtype=np.uint8)[::-1].copy()
    program.add_integer_join([1, 1], [[table, None]], [7])
    return np.concatenate([255 - codes, codes, np.full_like(codes[:2], 7)])


def _mean(codes: Integers, program: _native.Program) -> Integers:
    program.add_integer_mean(1, [100], [(0.003, 90.0)])
    sums = (codes - 100).sum((1, 2), keepdims=True)
    return rounded(sums.astype(np.float32) * F(0.003) + F(90))


def _pool(codes: Integers, program: _native.Program, is_max: bool) -> Integers:
    program.add_integer_pool(
        1, _native.Window((3, 2), (2, 3), (1, 1, 1, 0), (1, 1)), is_max, False, [100], [(1.5, 80.0)]
    )
    height, width = codes.shape[1:]
    result = np.zeros((len(codes), (height - 1) // 2 + 1, (width - 1) // 3 + 1), np.int64)
    for r in range(result.shape[1]):
        for c in range(result.shape[2]):
            window = codes[:, max(0, 2 * r - 1) : 2 * r + 2, max(0, 3 * c - 1) : 3 * c + 1]
            sums, count = (window - 100).sum((1, 2)).astype(np.float32), window[0].size
            mean = rounded(sums * F(1.5 / count) + F(80))
            result[:, r, c] = window.max((1, 2)) if is_max else mean
    return result


def _dequantize(codes: Integers, program: _native.Program) -> Integers:
    program.add_dequantize(1, [0.37], [100])
    program.add_quantize(2, [2.2], [7])
    floats = (codes.astype(np.float32) - F(100)) * F(0.37)
    return rounded(floats * F(2.2) + F(7))


STEPS: dict[str, tuple[Callable[[Integers, _native.Program], Integers], Shape]] = {
    "sum": (_sum, (5, 9, 21)),
    "product": (_product, (5, 9, 21)),
    "table": (_table, (5, 9, 21)),
    "join": (_join, (12, 9, 21)),
    "mean": (_mean, (5, 1, 1)),
    "max pool": (lambda codes, program: _pool(codes, program, True), (5, 5, 7)),
    "mean pool": (lambda codes, program: _pool(codes, program, False), (5, 5, 7)),
}


@pytest.mark.parametrize("kernels", KERNELS)
@pytest.mark.parametrize("name", STEPS)
@pytest.mark.parametrize("threads", [1, 3])
def test_every_step_has_the_codes_of_its_formula(kernels: str, name: str, threads: int) -> None:
    add, shape = STEPS[name]
    chain = Chain([PLANES.shape, shape], [100, 7], kernels, threads)
    expected = add(PLANES, chain.program)
    assert np.array_equal(chain.codes(PLANES), expected)


@pytest.mark.parametrize("kernels", KERNELS)
def test_codes_become_floats_and_codes_again(kernels: str) -> None:
    shape = PLANES.shape
    program = _native.Program([shape] * 4, 1, 1, kernels)
    program.add_quantize(0, [1.0], [100])
    expected = _dequantize(PLANES, program)
    program.set_value_zeros(1, [100])
    program.set_value_zeros(3, [7])
    ones = np.ones(PLANES.size, np.float32)
    program.set_integer_head(0, np.eye(PLANES.size, dtype=np.int8), ones, np.zeros_like(ones))
    program.finish()
    logits = np.empty((1, PLANES.size), np.float32)
    assert program.run((PLANES - 100).astype(np.float32)[None], 0, logits)
    assert np.array_equal(logits.reshape(shape), expected)


@pytest.mark.parametrize("kernels", KERNELS)
def test_the_classifier_rounds_each_operation_once(kernels: str) -> None:
    rng = np.random.default_rng(5)
    codes, weight = rng.integers(0, 256, (40, 3, 5)), rng.integers(-127, 128, (7, 600)).astype(np.int8)
    multipliers, offsets = rng.uniform(-1, 1, (2, 7)).astype(np.float32)
    program = _native.Program([codes.shape] * 2, 1, 1, kernels)
    program.add_quantize(0, [1.0], [0])
    program.set_value_zeros(1, [0])
    program.set_integer_head(0, weight, multipliers, offsets)
    program.finish()
    logits = np.empty((1, 7), np.float32)
    assert program.run(codes.astype(np.float32)[None], 0, logits)
    sums = weight.astype(np.int64) @ codes.ravel()
    assert np.array_equal(logits[0], sums.astype(np.float32) * multipliers + offsets)


def _program(*shapes: Shape) -> _native.Program:
    program = _native.Program([(3, 4, 4), (3, 4, 4), *shapes], 1, 1, "auto")
    program.add_quantize(0, [1.0], [0])
    return program


def _add_convolution(program: _native.Program, **changed: Any) -> int:  # noqa: ANN401
    fields: dict[str, Any] = {"inputs": [1], "groups": 1, "kept": np.array([0b111111], np.uint8)}
    fields |= {"window": ((1, 1), (1, 1), (0,) * 4, (1, 1)), "kernels": np.ones(6, np.int8)} | changed
    return program.add_integer_convolution(**(fields | {"window": _native.Window(*fields["window"])}))


def _set_convolution(program: _native.Program, number: int, **changed: Any) -> None:  # noqa: ANN401
    fields: dict[str, Any] = {"used": np.array([63], np.uint8), "zero": 0, "residual": 0.0, "low": 0, "high": 255}
    fields |= {"multipliers": np.ones(2, np.float32), "offsets": np.ones(2, np.float32)}
    program.set_integer_convolution(number, 0, **(fields | changed))


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"kernels": np.full(6, -128, np.int8)}, "from -127 to 127"),
        ({"kernels": np.ones(5, np.int8)}, "number of kernels differs"),
        ({"kept": np.zeros(2, np.uint8)}, "kept has the wrong size"),
        ({"groups": 2}, "groups must divide the channels"),
        ({"inputs": [5]}, "reads a value that no step has made"),
        ({"inputs": [1, 1]}, "residual must have the shape of the result"),
        ({"window": ((1, 1), (0, 1), (0,) * 4, (1, 1))}, "positive sides"),
    ],
)
def test_convolutions_that_do_not_fit_are_refused(changed: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        _add_convolution(_program((2, 4, 4)), **changed)


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"used": np.zeros(2, np.uint8)}, "used has the wrong size"),
        ({"multipliers": np.ones(3, np.float32)}, "wrong size"),
        ({"offsets": np.array([1, np.inf], np.float32)}, "not finite"),
        ({"residual": float("nan")}, "not finite"),
        ({"zero": 256}, "from 0 to 255"),
        ({"low": 9, "high": 8}, "low must not be above high"),
    ],
)
def test_numbers_of_a_domain_that_do_not_fit_are_refused(changed: dict[str, Any], message: str) -> None:
    program = _program((2, 4, 4))
    number = _add_convolution(program)
    with pytest.raises(ValueError, match=message):
        _set_convolution(program, number, **changed)


def _finish(program: _native.Program, *zeros: tuple[int, int], features: int = 32) -> None:
    for value, zero in zeros:
        program.set_value_zeros(value, [zero])
    ones = np.ones(1, np.float32)
    program.set_integer_head(0, np.ones((1, features), np.int8), ones, ones)
    program.finish()


def test_a_program_whose_parts_contradict_each_other_is_refused() -> None:
    program = _program((2, 4, 4))
    number = _add_convolution(program)
    with pytest.raises(ValueError, match="lacks the numbers of a domain"):
        _finish(program, (1, 0), (2, 0))
    _set_convolution(program, number, zero=4)
    with pytest.raises(ValueError, match="differ in the code of zero"):
        _finish(program, (1, 0), (2, 0))
    with pytest.raises(ValueError, match="differ in the code of zero"):
        _finish(program, (1, 3), (2, 0))
    floats = _program((3, 4, 4))
    floats.add_sum([1, 1], "none", 0.0)
    with pytest.raises(ValueError, match="reads codes but its input holds floats, or the other way round"):
        _finish(floats, (1, 0), features=48)
    with pytest.raises(ValueError, match="has zeros but its step makes floats"):
        _finish(floats, (1, 0), (2, 0), features=48)


def test_sums_that_might_not_fit_32_bits_are_refused() -> None:
    many = 70000
    program = _native.Program([(many, 1, 1), (many, 1, 1), (1, 1, 1)], 1, 1, "auto")
    program.add_quantize(0, [1.0], [0])
    with pytest.raises(ValueError, match="may not fit 32 bits"):
        program.set_integer_head(0, np.ones((1, many), np.int8), *np.ones((2, 1), np.float32))
    kept = np.zeros((many + 7) // 8, np.uint8)
    window = _native.Window((1, 1), (1, 1), (0,) * 4, (1, 1))
    with pytest.raises(ValueError, match="may not fit 32 bits"):
        program.add_integer_convolution([1], 1, window, kept, np.zeros(0, np.int8))


@pytest.mark.parametrize(
    ("side", "stride", "gap", "message"),
    [(16, 1, 65535, "more than a gigabyte"), (8, 2, 60000, "window and the image are too large together")],
)
def test_windows_that_need_gigabytes_of_padding_are_refused(side: int, stride: int, gap: int, message: str) -> None:
    program = _native.Program([(1, 16, 16), (1, 16, 16), (1, side, side)], 1, 1, "auto")
    program.add_quantize(0, [1.0], [0])
    window = _native.Window((2, 2), (stride, stride), (gap, gap, 0, 0), (gap, gap))
    number = program.add_integer_convolution([1], 1, window, np.ones(1, np.uint8), np.ones(4, np.int8))
    ones = np.ones(1, np.float32)
    program.set_integer_convolution(number, 0, np.ones(1, np.uint8), 0, ones, ones, 0.0, 0, 255)
    with pytest.raises(ValueError, match=message):
        _finish(program, (1, 0), (2, 0), features=side * side)
