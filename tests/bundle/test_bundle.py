"""A bundle returns masks, weights and tensors in the shapes of the layers."""

import pytest

from prunus.bundle.bundle import Bundle
from prunus.errors import UnknownNameError


def test_masks_and_weights_lie_where_the_union_says(bundle: Bundle) -> None:
    assert bundle.mask("a", "conv").tolist() == [[True, False, False], [True, True, False]]
    assert bundle.weight("conv", bundle.mask("b", "conv"))[:, :, 0, 0].tolist() == [[1, 0, 2], [0, 0, 0]]
    assert bundle.layer_masks()["conv"].shape == (2, 2, 3)
    with pytest.raises(UnknownNameError, match="unknown domain 'c'"):
        bundle.check_domain("c")
