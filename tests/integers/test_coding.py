"""Codes stand for numbers to within half a step, and everything out of range takes the nearest end."""

import numpy as np
import pytest

from prunus.integers.coding import inverse_scales, nearest_codes, to_codes, to_numbers, value_codings
from tests.makers.coded_bundles import integer_graph, random_coded_bundle
from tests.makers.graph_bundles import random_bundle


@pytest.mark.parametrize("zero", [0, 3, 128, 255])
def test_a_decoded_code_is_encoded_as_itself(zero: int) -> None:
    codes = np.arange(256, dtype=np.uint8)
    scales = np.array([0.0173], np.float32)
    numbers = to_numbers(codes, scales[0], zero)
    assert numbers[zero] == 0
    assert np.array_equal(to_codes(numbers, inverse_scales(scales)[0], zero), codes)


def test_numbers_out_of_range_take_the_nearest_end_and_nan_the_first() -> None:
    numbers = np.array([-1e30, -np.inf, 1e30, np.inf, np.nan, 0.26, -0.26, 0.25, 0.75], np.float32)
    assert to_codes(numbers, np.float32(2), 100).tolist() == [0, 0, 255, 255, 0, 101, 99, 100, 102]
    scales, zeros = np.array([[0.5]]), np.array([[100.0]])
    assert nearest_codes(numbers[None].astype(np.float64), scales, zeros)[0].tolist() == [
        *(0, 0, 255, 255, 0, 101, 99),
        *(100, 102),  # ties go to the even code
    ]


def test_codings_are_read_value_by_value_for_every_domain() -> None:
    bundle = random_coded_bundle(integer_graph(0), 12)
    codings = value_codings(bundle)
    assert tuple(codings) == bundle.manifest.coded
    for index, value in enumerate(bundle.manifest.coded):
        for row, domain in enumerate(bundle.domains):
            assert codings[value].scales[row] == bundle.arrays[f"coding/{domain}/scale"][index]
            assert codings[value].zeros[row] == bundle.arrays[f"coding/{domain}/zero"][index]
    assert value_codings(random_bundle(integer_graph(0), 12)) == {}
