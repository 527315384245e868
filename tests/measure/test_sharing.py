"""Sharing counted from packed bits is the sharing of the masks."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from prunus.bundle.coding.bits import pack_bits
from prunus.measure.sharing import by_domain, count_shared, sharing_of


def test_two_domains_share_what_both_use_of_what_either_uses() -> None:
    mask_DM = np.array([[1, 1, 0, 0, 1], [1, 0, 1, 0, 1], [0, 0, 0, 0, 0]], dtype=np.bool_)
    assert sharing_of(count_shared(np.packbits(mask_DM, axis=1))).tolist() == [[1, 0.5, 0], [0.5, 1, 0], [0, 0, 1]]


@given(st.integers(0, 2**31), st.integers(1, 5), st.integers(0, 100))
def test_packed_bits_count_as_the_switches_do(seed: int, domains: int, kernels: int) -> None:
    mask_DM = np.random.default_rng(seed).random((domains, kernels)) < 0.5
    packed_DB = np.stack([pack_bits(mask_M) for mask_M in mask_DM])
    assert np.array_equal(count_shared(packed_DB), mask_DM.astype(np.int64) @ mask_DM.T)


def test_a_matrix_is_named_by_rows_and_columns_and_must_fit_its_names() -> None:
    assert by_domain(["a", "b"], np.array([[1.0, 0.25], [0.5, 1.0]])) == {
        "a": {"a": 1, "b": 0.25},
        "b": {"a": 0.5, "b": 1},
    }
    for shape in ((2, 3), (3, 2)):
        with pytest.raises(ValueError, match="argument 2"):
            by_domain(["a", "b"], np.ones(shape))
