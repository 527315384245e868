"""A bundle returns masks, weights and tensors in the shapes of the layers."""

import numpy as np
import pytest

from prunus.bundle.bundle import Bundle
from prunus.bundle.dtypes import encode
from prunus.errors import UnknownNameError


def test_masks_and_weights_lie_where_the_union_says(bundle: Bundle) -> None:
    assert bundle.mask("a", "conv").tolist() == [[True, False, False], [True, True, False]]
    assert bundle.weight("conv", bundle.mask("b", "conv"))[:, :, 0, 0].tolist() == [[1, 0, 2], [0, 0, 0]]
    assert bundle.layer_masks()["conv"].shape == (2, 2, 3)
    with pytest.raises(UnknownNameError, match="unknown domain 'c'"):
        bundle.check_domain("c")


def test_tensors_are_a_domains_own_or_shared_or_missing(bundle: Bundle) -> None:
    own, shared = bundle.tensor("b", 0, "scale"), bundle.tensor("b", 0, "ones")
    assert own is not None
    assert own.tolist() == [2, 2]
    assert shared is not None
    assert shared.tolist() == [[[3]], [[3]]]
    assert bundle.tensor("b", 0, "bias") is None


def test_packed_masks_have_a_row_of_bytes_per_domain(bundle: Bundle) -> None:
    assert bundle.packed_masks("conv").tolist() == [[0b1101], [0b0011]]


def test_heads_are_float32_and_the_type_is_that_of_the_file(bundle: Bundle) -> None:
    assert bundle.dtype == "float32"
    half = {name: encode(array, "bfloat16") for name, array in bundle.arrays.items() if name.startswith("head/")}
    stored = Bundle(bundle.manifest, bundle.arrays | half)
    assert stored.dtype == "bfloat16"
    assert [array.dtype for array in stored.head("b")] == [np.float32, np.float32]
    assert [array.shape for array in stored.head("b")] == [(3, 2), (3,)]
