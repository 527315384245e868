"""Operations on tokens know their shapes, refuse what does not fit, and count windows and products."""

import numpy as np
import pytest

from prunus.errors import BundleError
from prunus.graph.operations import AffineMap, Attention, JoinPixels, Rearrange


def _attention(**fields: object) -> Attention:
    usual = {"op": "attention", "inputs": (0, 0, 0), "heads": 2, "dims": (3, 5), "scale": 1.0}
    return Attention.model_validate(usual | {"first": (0, 6, 12), "step": (3, 3, 5)} | fields)


def test_numbers_of_single_pixels_need_these_pixels() -> None:
    embedding = AffineMap(op="affine_map", inputs=(0,), sides=(1, 5))
    assert embedding.shape([(4, 1, 5)]) == (4, 1, 5)
    assert embedding.tensors(4) == {"scale": (4, 1, 5), "bias": (4, 1, 5)}
    with pytest.raises(BundleError, match=r"numbers for \(1, 5\) pixels, but its input is \(4, 5, 1\)"):
        embedding.shape([(4, 5, 1)])


def test_joined_pixels_become_one_row_after_the_constant_ones() -> None:
    joined = JoinPixels(op="join_pixels", inputs=(0, 1), count=2)
    assert joined.shape([(4, 3, 3), (4, 1, 2)]) == (4, 1, 2 + 9 + 2)
    assert joined.tensors(4) == {"tokens": (4, 2)}
    with pytest.raises(BundleError, match="pixels of different channels"):
        joined.shape([(4, 3, 3), (5, 1, 2)])
    with pytest.raises(BundleError, match="more than"):
        joined.shape([(1, 60_000, 1), (1, 60_000, 1)])


def test_numbers_are_rearranged_only_inside_their_input() -> None:
    usual = {"op": "rearrange", "inputs": (0,), "target": (2, 1, 3), "sizes": (2, 3), "strides": (1, 2), "offset": 1}
    transposed = Rearrange.model_validate(usual)
    assert transposed.shape([(7, 1, 1)]) == (2, 1, 3)  # the last number is 1 + 1 + 2 * 2 = 6
    with pytest.raises(BundleError, match="reads number 6 of its input"):
        transposed.shape([(6, 1, 1)])
    with pytest.raises(BundleError, match="arranges numbers as"):
        Rearrange.model_validate(usual | {"sizes": (2, 4)}).shape([(99, 1, 1)])
    with pytest.raises(BundleError, match="arranges numbers as"):
        Rearrange.model_validate(usual | {"strides": (1,)}).shape([(99, 1, 1)])


def test_attention_has_the_pixels_of_its_queries_and_counts_both_products() -> None:
    cross = _attention(inputs=(0, 1, 1))
    shapes = [(22, 2, 2), (22, 1, 7), (22, 1, 7)]
    assert cross.shape(shapes) == (10, 2, 2)
    assert cross.macs(shapes) == 2 * 4 * 7 * 3 + 2 * 4 * 7 * 5
    assert cross.shape([(22, 2, 2), (22, 2, 4), (22, 1, 8)]) == (10, 2, 2)  # as many pixels, in other rows
    assert cross.tensors(22) == {}
    assert _attention(pairs=(4, 7)).tensors(22) == {"bias": (2, 4, 7)}


@pytest.mark.parametrize(
    ("fields", "shapes", "problem"),
    [
        ({}, [(21, 2, 2)] * 3, "reads 2 heads of 5 channels from 12 on"),
        ({}, [(22, 2, 2), (22, 2, 2), (22, 1, 5)], r"has keys \(22, 2, 2\) for values \(22, 1, 5\)"),
        ({"pairs": (4, 5)}, [(22, 2, 2)] * 3, r"a bias for \(4, 5\) pixels of a window, which has \(4, 4\)"),
        ({"window": (2, 2)}, [(22, 3, 4)] * 3, "do not fit its input"),
        ({"window": (2, 2), "shift": (4, 0)}, [(22, 4, 4)] * 3, "do not fit its input"),
        ({"window": (2, 2)}, [(22, 4, 4), (22, 2, 2), (22, 2, 2)], "has windows, but its inputs are"),
        ({"window": (2, 2)}, [(22, 4, 4), (22, 4, 4), (22, 1, 16)], "has windows, but its inputs are"),
        ({}, [(22, 1, 60_000)] * 3, "compares 60000 with 60000 pixels"),
    ],
)
def test_attention_refuses_inputs_that_do_not_fit(
    fields: dict[str, object], shapes: list[tuple[int, int, int]], problem: str
) -> None:
    with pytest.raises(BundleError, match=problem):
        _attention(**fields).shape(shapes)


@pytest.mark.parametrize("every", [(1, 1), (2, 1), (2, 3)])
@pytest.mark.parametrize("shift", [(0, 0), (1, 2)])
def test_every_pixel_is_in_one_window_of_pixels_that_far_apart(every: tuple[int, int], shift: tuple[int, int]) -> None:
    sides = (8, 12)
    windowed = _attention(window=(2, 2), every=every, shift=shift)
    windows = windowed.windows(sides)
    assert sorted(windows.ravel().tolist()) == list(range(8 * 12))
    rows, columns = windows // 12, windows % 12
    assert set(((rows[:, 2] - rows[:, 0]) % 8).tolist()) == {every[0]}
    assert set(((columns[:, 1] - columns[:, 0]) % 12).tolist()) == {every[1]}
    regions = windowed.regions(sides)
    crosses = (rows.max(1) - rows.min(1) > every[0]) | (columns.max(1) - columns.min(1) > every[1])
    np.testing.assert_array_equal(regions.min(1) != regions.max(1), crosses)
