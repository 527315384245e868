"""An index is stored in the smaller of two codes, and a wrong one is refused."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from prunus.bundle.coding.index import Code, decode_index, encode_index
from prunus.errors import BundleError


@given(seed=st.integers(0, 2**31), count=st.integers(1, 3000), density=st.sampled_from([0, 0.001, 0.05, 0.5, 0.99, 1]))
def test_an_index_comes_back_from_the_cheaper_of_its_codes(seed: int, count: int, density: float) -> None:
    rng = np.random.default_rng(seed)
    kept = rng.random(count) < density
    if rng.random() < 0.3:
        kept = np.sort(kept)
    code, stored = encode_index(kept)
    assert np.array_equal(decode_index(code, stored, count), kept)
    assert stored.size <= -(-count // 8)
    if density in (0, 1) and count > 200:
        assert (code, stored.size <= 4) == ("runs", True)


@pytest.mark.parametrize(
    ("code", "stored", "message"),
    [
        ("bits", [255], "bits after its last kernel"),
        ("bits", [1, 1], "does not match 6 kernels"),
        ("runs", [5], "add up to 5"),
        ("runs", [128], "in the middle of a number"),
        ("runs", [255] * 12, "more than its 6 kernels"),
        ("runs", [3, 3, 3], "add up to 9"),
        ("runs", [0, 3, 0, 3], "an empty run"),
    ],
)
def test_an_index_that_does_not_add_up_is_refused(code: Code, stored: list[int], message: str) -> None:
    with pytest.raises(BundleError, match=message):
        decode_index(code, np.array(stored, dtype=np.uint8), 6)
